/**
 * Show the values of a chart's curves in a table: the last ones, or those under the cursor.
 */
import { element, setText } from './dom';
import { hasSlowest, type ICurve, type ILayout } from './layout';
import { integer, number } from './numbers';
import { DOTTED } from './plot';
import { nearest } from './series';
import type { ITrans } from './trans';

const SVG = 'http://www.w3.org/2000/svg';

/** A cell of a table, and how to fill it. */
type Fill = (at: number | null) => string;

/** How a line looks; dashes are in CSS pixels. */
export interface ILook {
  colour: string;
  dash: readonly number[];
}

export class ValueTable {
  /**
   * @param quantity - what the curves measure
   */
  constructor(
    quantity: string,
    private readonly trans: ITrans
  ) {
    this.node.setAttribute('aria-label', trans.__('Values of %1', quantity));
    this.node.append(this._head, this._body);
  }

  readonly node = element('table', { class: 'wb-values' });

  /** Make the rows anew: other curves, or others of their values. */
  rebuild(
    curves: readonly ICurve[],
    looks: readonly ILook[],
    slowest: number,
    isSmoothed: boolean
  ): void {
    const { trans } = this;
    this._cells = [];
    const hasBand = curves.some(({ series }) => series.hasBand);
    const titles = [
      trans.__('value'),
      ...(isSmoothed ? [trans.__('smoothed')] : []),
      ...(hasBand ? [trans.__('min – max')] : [])
    ];
    this._when = element('th', { scope: 'col' });
    this._head.replaceChildren(
      element(
        'tr',
        {},
        this._when,
        ...titles.map(text => element('th', { scope: 'col', text }))
      )
    );
    const rows = curves.flatMap((curve, i) => {
      const fills: Fill[] = [at => this._value(i, at, 'median')];
      if (isSmoothed) {
        fills.push(at => this._value(i, at, 'smoothed'));
      }
      if (hasBand) {
        fills.push(at => this._range(i, at));
      }
      const made = [this._row(curve.label, looks[i], fills)];
      if (slowest >= 0 && hasSlowest(curve.series)) {
        const label = trans.__('slowest: rank %1', slowest);
        const blank: Fill[] = titles.slice(1).map(() => () => '');
        made.push(
          this._row(label, { ...looks[i], dash: DOTTED }, [
            at => this._value(i, at, 'slowest'),
            ...blank
          ])
        );
        made[1].className = 'wb-side';
      }
      return made;
    });
    this._body.replaceChildren(...rows);
  }

  /**
   * Show values.
   *
   * @param at - the iteration that is looked at; null for the last of each curve
   */
  show(curves: readonly ICurve[], layout: ILayout, at: number | null): void {
    this._curves = curves;
    this._layout = layout;
    setText(
      this._when,
      at === null
        ? this.trans.__('last values')
        : this.trans.__('iteration %1', integer(at))
    );
    for (const { node, fill } of this._cells) {
      setText(node, fill(at));
    }
  }

  private _row(label: string, look: ILook, fills: Fill[]): HTMLElement {
    const cells = fills.map(fill => {
      const node = element('td');
      this._cells.push({ node, fill });
      return node;
    });
    return element(
      'tr',
      {},
      element('th', { scope: 'row' }, swatch(look), label),
      ...cells
    );
  }

  private _value(
    curve: number,
    at: number | null,
    kind: 'median' | 'smoothed' | 'slowest'
  ): string {
    const values =
      kind === 'smoothed'
        ? this._layout!.smoothed[curve]
        : this._curves[curve].series[kind];
    const place = this._place(curve, at);
    return place < 0 ? '' : number(values[place]);
  }

  private _range(curve: number, at: number | null): string {
    const { low, high } = this._curves[curve].series;
    const place = this._place(curve, at);
    return place < 0 || Number.isNaN(low[place])
      ? ''
      : `${number(low[place], 3)} – ${number(high[place], 3)}`;
  }

  private _place(curve: number, at: number | null): number {
    const { x } = this._curves[curve].series;
    return at === null ? x.length - 1 : nearest(x, at);
  }

  private readonly _head = element('thead');
  private readonly _body = element('tbody');
  private _when = element('th');
  private _curves: readonly ICurve[] = [];
  private _layout: ILayout | null = null;
  private _cells: { node: HTMLElement; fill: Fill }[] = [];
}

/** A piece of a line as it is drawn. */
function swatch({ colour, dash }: ILook): Element {
  const made = document.createElementNS(SVG, 'svg');
  made.setAttribute('class', 'wb-swatch');
  made.setAttribute('aria-hidden', 'true');
  const line = document.createElementNS(SVG, 'path');
  line.setAttribute('d', 'M0 3h18');
  line.setAttribute('stroke', colour);
  line.setAttribute('stroke-width', dash === DOTTED ? '2' : '3');
  line.setAttribute('stroke-dasharray', dash.join(' '));
  made.append(line);
  return made;
}
