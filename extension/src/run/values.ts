/**
 * Show the values of a chart's curves in a table: the last ones, or those under the cursor.
 */
import { element, setText } from './dom';
import { hasSlowest, type ICurve } from './layout';
import { number, placeText } from './numbers';
import { DOTTED } from './plot';
import { nearest } from './series';

const SVG = 'http://www.w3.org/2000/svg';

/** As wide in every chart, whatever the values. */
const COLUMNS = ['wb-valuecolumn', 'wb-rangecolumn'];

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
  constructor(quantity: string) {
    this.node.setAttribute('aria-label', `Values of ${quantity}`);
    this.node.append(this._head, this._body);
  }

  readonly node = element('table', { class: 'wb-values' });

  /**
   * Rebuild the rows: for other curves or other columns.
   *
   * @param hasRanges - whether there is a column of least and greatest values
   */
  rebuild(
    curves: readonly ICurve[],
    looks: readonly ILook[],
    slowest: number,
    hasRanges: boolean
  ): void {
    this._cells = [];
    const titles = ['value', ...(hasRanges ? ['min – max'] : [])];
    this._when = element('th', { scope: 'col' });
    this._head.replaceChildren(
      element(
        'tr',
        {},
        this._when,
        ...titles.map((text, i) =>
          element('th', { scope: 'col', text, class: COLUMNS[i] })
        )
      )
    );
    const rows = curves.flatMap((curve, i) => {
      const fills: Fill[] = [at => this._value(i, at)];
      if (hasRanges) {
        fills.push(at => this._range(i, at));
      }
      const made = [this._row(curve.label, looks[i], fills)];
      if (slowest >= 0 && hasSlowest(curve.series)) {
        const label = `slowest: rank ${slowest}`;
        const blank: Fill[] = titles.slice(1).map(() => () => '');
        made.push(
          this._row(label, { ...looks[i], dash: DOTTED }, [
            at => this._slowest(i, at),
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
   * @param at - the iteration, or second, that is looked at; null for the last of each curve
   */
  show(curves: readonly ICurve[], at: number | null, isTime = false): void {
    this._curves = curves;
    setText(this._when, at === null ? 'last values' : placeText(at, isTime));
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

  private _value(curve: number, at: number | null): string {
    const { series, last } = this._curves[curve];
    const place = this._place(curve, at);
    const value =
      at === null && last !== undefined ? last : series.median[place];
    return place < 0 ? '' : number(value);
  }

  private _slowest(curve: number, at: number | null): string {
    const place = this._place(curve, at);
    return place < 0 ? '' : number(this._curves[curve].series.slowest[place]);
  }

  private _range(curve: number, at: number | null): string {
    const { series, last, lastRange } = this._curves[curve];
    if (at === null && last !== undefined) {
      // The last bucket spans more iterations the longer the run was.
      return lastRange ? lastRange.map(one => number(one)).join(' – ') : '';
    }
    const { low, high, hasBand } = series;
    const place = this._place(curve, at);
    return !hasBand || place < 0 || Number.isNaN(low[place])
      ? ''
      : `${number(low[place])} – ${number(high[place])}`;
  }

  private _place(curve: number, at: number | null): number {
    const { x } = this._curves[curve].series;
    return at === null ? x.length - 1 : nearest(x, at);
  }

  private readonly _head = element('thead');
  private readonly _body = element('tbody');
  private _when = element('th');
  private _curves: readonly ICurve[] = [];
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
