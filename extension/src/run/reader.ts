/**
 * Keyboard access to a chart: a cursor moved by arrow keys, whose values are announced, and zoom.
 */
import { element, setAttribute } from './dom';
import type { Range, Zoom } from './zoom';

/** What the cursor moves along. */
export interface IReadable {
  /** What is shown; null while there is nothing. */
  readonly shown: Range | null;
  /** All that there is to be shown. */
  readonly whole: Range | null;
  /** The iterations that the cursor stops at. */
  readonly stops: ArrayLike<number>;
  /** The place of the stop nearest to an iteration. */
  nearest(iteration: number): number;
  /** The values at an iteration, in words. */
  says(iteration: number): string;
}

const PAGE = 0.1;

export class ChartReader {
  constructor(
    private readonly chart: IReadable,
    private readonly zoom: Zoom,
    quantity: string
  ) {
    this.node = element('div', {
      class: 'wb-reader',
      role: 'slider',
      'aria-label': `Cursor of ${quantity}`,
      'aria-description':
        'Arrow keys move the cursor, plus and minus zoom, 0 shows everything.'
    });
    this.node.addEventListener('keydown', event => this._onKey(event));
    this.node.addEventListener('focus', () => this.update());
    this.node.addEventListener('blur', () => this.zoom.point(null));
  }

  readonly node: HTMLElement;

  /** Say where the cursor is. */
  update(): void {
    const { whole, stops } = this.chart;
    if (!whole) {
      this.node.removeAttribute('tabindex');
      this.node.hidden = true;
      return;
    }
    this.node.hidden = false;
    this.node.tabIndex = 0;
    const at = this.zoom.cursor ?? whole[1];
    const stop = stops[this.chart.nearest(at)] ?? at;
    setAttribute(this.node, 'aria-valuemin', String(whole[0]));
    setAttribute(this.node, 'aria-valuemax', String(whole[1]));
    setAttribute(this.node, 'aria-valuenow', String(stop));
    setAttribute(this.node, 'aria-valuetext', this.chart.says(stop));
  }

  private _onKey(event: KeyboardEvent): void {
    const { shown, whole } = this.chart;
    if (event.ctrlKey || event.metaKey || event.altKey || !shown || !whole) {
      return;
    }
    const page = PAGE * (shown[1] - shown[0]);
    const actions: { [key: string]: () => void } = {
      ArrowLeft: () => this._step(-1),
      ArrowRight: () => this._step(1),
      ArrowDown: () => this._step(-1),
      ArrowUp: () => this._step(1),
      PageUp: () => this._jump(page),
      PageDown: () => this._jump(-page),
      Home: () => this._to(shown[0]),
      End: () => this._to(shown[1]),
      '+': () => this.zoom.scale(0.5, whole),
      '=': () => this.zoom.scale(0.5, whole),
      '-': () => this.zoom.scale(2, whole),
      '0': () => this.zoom.set(null),
      Escape: () => this.zoom.set(null)
    };
    const action = actions[event.key];
    if (action) {
      event.preventDefault();
      event.stopPropagation();
      action();
    }
  }

  private _step(by: number): void {
    const { shown, stops } = this.chart;
    const at = this.zoom.cursor;
    if (at === null) {
      this._to(by < 0 ? shown![1] : shown![0]);
    } else {
      const place = this.chart.nearest(at) + by;
      this._to(stops[Math.min(stops.length - 1, Math.max(0, place))]);
    }
  }

  private _jump(by: number): void {
    const { shown } = this.chart;
    this._to((this.zoom.cursor ?? (by < 0 ? shown![1] : shown![0])) + by);
  }

  private _to(iteration: number): void {
    const [first, last] = this.chart.shown!;
    const inside = Math.min(last, Math.max(first, iteration));
    this.zoom.point(this.chart.stops[this.chart.nearest(inside)] ?? inside);
  }
}
