/**
 * The step breakdown of each rank, as bars and a table.
 */
import type { ISteps, StepPart } from '../protocol';
import { element, setText, withCode } from './dom';
import { fixed, millisecondPlaces } from './numbers';
import { partNames } from './parts';

/** What `ISteps.ranks` has where an older version said nothing else. */
const PARTS: readonly StepPart[] = [
  'compute',
  'communication',
  'data',
  'other'
];

/** What is less of a step than this gives way where there is little room. */
const SMALL = 0.1;

/** A row of the table. */
interface IRow {
  node: HTMLElement;
  name: HTMLElement;
  bars: HTMLElement[];
  cells: HTMLElement[];
}

export class StepTable {
  constructor() {
    const table = element(
      'table',
      { class: 'wb-steptable' },
      this._caption,
      this._head,
      this._body
    );
    const scrolled = element(
      'div',
      {
        class: 'wb-steps',
        role: 'group',
        'aria-label': 'Time of a step',
        tabindex: '0'
      },
      table
    );
    this.node.append(scrolled, this._says);
    this.node.hidden = true;
  }

  readonly node = element('div', { class: 'wb-section' });

  show(steps: ISteps | null): void {
    const ranks = steps?.ranks ?? [];
    this.node.hidden = !ranks.length;
    if (!steps || !ranks.length) {
      return;
    }
    setText(this._caption, steps.title ?? '');
    const names = steps.parts ?? PARTS;
    const isOther = names.join() !== this._parts.join();
    if (isOther) {
      this._parts = names;
      this._head.replaceChildren(this._titles());
    }
    if (isOther || this._rows.length !== ranks.length) {
      this._rows = ranks.map(() => makeRow(names));
      this._body.replaceChildren(...this._rows.map(row => row.node));
    }
    const sums = ranks.map(([, ...parts]) => parts.reduce((a, b) => a + b, 0));
    const longest = steps.longest || Math.max(...sums) || 1;
    const places = millisecondPlaces(longest);
    const small = names.map((_, part) =>
      ranks.every((row, i) => Number(row[part + 1]) < SMALL * sums[i])
    );
    const titles = this._head.querySelectorAll('th:not(:first-child)');
    small.forEach((is, part) => titles[part].classList.toggle('wb-small', is));
    ranks.forEach(([rank, ...parts], i) => {
      const { node, name, bars, cells } = this._rows[i];
      node.classList.toggle('wb-slowest', i === steps.marked);
      setText(name, steps.labels?.[i] ?? String(rank));
      parts.forEach((seconds, part) => {
        bars[part].style.width = `${(100 * seconds) / longest}%`;
        cells[part].classList.toggle('wb-small', small[part]);
        setText(cells[part], fixed(1000 * seconds, places));
      });
      setText(cells[parts.length], fixed(1000 * sums[i], places));
    });
    const says = steps.says ?? [];
    if (says.join('\n') !== this._said) {
      this._said = says.join('\n');
      this._says.replaceChildren(
        ...says.map(text =>
          element('p', { class: 'wb-verdict' }, ...withCode(text))
        )
      );
    }
  }

  private _titles(): HTMLElement {
    const words = partNames();
    return element(
      'tr',
      {},
      element('th', { scope: 'col', text: 'rank' }),
      element('td', { class: 'wb-barcell' }),
      ...this._parts.map(part =>
        element(
          'th',
          { scope: 'col', class: `wb-column-${part}` },
          element(
            'span',
            { class: 'wb-part' },
            element('span', {
              class: `wb-square wb-part-${part}`,
              'aria-hidden': 'true'
            }),
            element('span', { text: words.get(part)! })
          )
        )
      ),
      element('th', {
        scope: 'col',
        class: 'wb-column-total',
        text: 'total'
      })
    );
  }

  private readonly _caption = element('caption');
  private readonly _head = element('thead');
  private readonly _body = element('tbody');
  private readonly _says = element('div', { class: 'wb-says' });
  private _parts: readonly StepPart[] = [];
  private _said = '';
  private _rows: IRow[] = [];
}

function makeRow(parts: readonly StepPart[]): IRow {
  const name = element('th', { scope: 'row' });
  const bars = parts.map(part => element('span', { class: `wb-part-${part}` }));
  const bar = element('div', { class: 'wb-bar', 'aria-hidden': 'true' });
  bar.append(...bars);
  const cells = [...parts, 'total'].map(part =>
    element('td', { class: `wb-column-${part}` })
  );
  const node = element(
    'tr',
    {},
    name,
    element('td', { class: 'wb-barcell' }, bar),
    ...cells
  );
  return { node, name, bars, cells };
}
