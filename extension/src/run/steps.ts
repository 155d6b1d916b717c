/**
 * Show where the time of a step goes on each rank.
 */
import type { ISteps } from '../protocol';
import { element, setText } from './dom';
import { fixed, integer } from './numbers';
import type { ITrans } from './trans';

/** The classes that colour the parts, in the order of `ISteps.ranks`. */
const PARTS = ['compute', 'communication', 'data', 'other'] as const;

/** A row of the table. */
interface IRow {
  node: HTMLElement;
  name: HTMLElement;
  bars: HTMLElement[];
  cells: HTMLElement[];
}

export class StepTable {
  constructor(private readonly trans: ITrans) {
    const words = [
      trans.__('compute'),
      trans.__('communication'),
      trans.__('data'),
      trans.__('other')
    ];
    const titles = words.map((word, i) =>
      element(
        'th',
        { scope: 'col' },
        element('span', {
          class: `wb-square wb-part-${PARTS[i]}`,
          'aria-hidden': 'true'
        }),
        word
      )
    );
    const table = element(
      'table',
      { class: 'wb-steptable' },
      this._caption,
      element(
        'thead',
        {},
        element(
          'tr',
          {},
          element('th', { scope: 'col', text: trans.__('rank') }),
          element('td', { class: 'wb-barcell' }),
          ...titles,
          element('th', { scope: 'col', text: trans.__('total') })
        )
      ),
      this._body
    );
    this.node = element(
      'div',
      {
        class: 'wb-steps',
        role: 'group',
        'aria-label': trans.__('Time of a step'),
        tabindex: '0'
      },
      table
    );
    this.node.hidden = true;
  }

  readonly node: HTMLElement;

  show(steps: ISteps | null): void {
    const ranks = steps?.ranks ?? [];
    this.node.hidden = !ranks.length;
    if (!steps || !ranks.length) {
      return;
    }
    setText(this._caption, this._title(steps));
    if (this._rows.length !== ranks.length) {
      this._rows = ranks.map(() => makeRow());
      this._body.replaceChildren(...this._rows.map(row => row.node));
    }
    const sums = ranks.map(([, ...parts]) => parts.reduce((a, b) => a + b, 0));
    const longest = Math.max(...sums) || 1;
    const places = Math.max(0, 2 - Math.floor(Math.log10(1000 * longest)));
    ranks.forEach(([rank, ...parts], i) => {
      const { node, name, bars, cells } = this._rows[i];
      const isSlowest = rank === steps.slowest && steps.total > 1;
      node.classList.toggle('wb-slowest', isSlowest);
      const label = this.trans.__('rank %1', rank);
      setText(name, isSlowest ? this.trans.__('%1 ▲ slowest', label) : label);
      parts.forEach((seconds, part) => {
        bars[part].style.width = `${(100 * seconds) / longest}%`;
        setText(cells[part], fixed(1000 * seconds, places));
      });
      setText(cells[parts.length], fixed(1000 * sums[i], places));
    });
  }

  private _title(steps: ISteps): string {
    const { trans } = this;
    return steps.total > steps.ranks.length
      ? trans.__(
          'Time of a step in ms, on %1 of %2 ranks',
          integer(steps.ranks.length),
          integer(steps.total)
        )
      : trans.__('Time of a step in ms');
  }

  private readonly _caption = element('caption');
  private readonly _body = element('tbody');
  private _rows: IRow[] = [];
}

function makeRow(): IRow {
  const name = element('th', { scope: 'row' });
  const bars = PARTS.map(part => element('span', { class: `wb-part-${part}` }));
  const bar = element('div', { class: 'wb-bar', 'aria-hidden': 'true' });
  bar.append(...bars);
  const cells = [...PARTS, 'total'].map(() => element('td'));
  const node = element(
    'tr',
    {},
    name,
    element('td', { class: 'wb-barcell' }, bar),
    ...cells
  );
  return { node, name, bars, cells };
}
