/**
 * Draw the curves of one quantity, of one run or of several, and let them be read and zoomed.
 */
import type { Family } from '../protocol';
import type uPlot from 'uplot';

import { element, setAttribute, setText } from './dom';
import {
  layOut,
  linesOf,
  redoneAt,
  spanOf,
  type ICurve,
  type ILayout,
  type IStyle
} from './layout';
import type { IShownMark } from './marks';
import { integer, number, placeText } from './numbers';
import { Pacer } from './pacer';
import { dashOf, makePlot, pointed, type IPlotted } from './plot';
import { ChartReader, type IReadable } from './reader';
import { nearest } from './series';
import { readTheme, type ITheme } from './theme';
import { ValueTable } from './values';
import type { Range, Zoom } from './zoom';

export type { ICurve, IStyle } from './layout';

const HEIGHT = 210;

export interface IChartOptions {
  /** What the curves measure, such as `loss`. */
  quantity: string;
  family: Family;
  /** Shared by the charts that show the same iterations. */
  zoom: Zoom;
  style: IStyle;
}

/** One chart. Nothing is drawn before its node is in the page and in sight. */
export class Chart implements IPlotted, IReadable {
  constructor(private readonly options: IChartOptions) {
    const { quantity, zoom, style } = options;
    this.style = style;
    this._table = new ValueTable(quantity);
    this._reader = new ChartReader(this, zoom, quantity);
    this.node.append(
      element('figcaption', { text: quantity }),
      element(
        'div',
        { class: 'wb-plot' },
        this._picture,
        this._note,
        this._reader.node
      ),
      this._table.node
    );
    this._picture.addEventListener('mousedown', () =>
      this._reader.node.focus({ preventScroll: true })
    );
    this._pacer = new Pacer(this.node, () => this._draw());
    this._resizes = new ResizeObserver(() => this._pacer.request());
    this._resizes.observe(this._picture);
    this._reader.update();
    zoom.changed.connect(this._onZoom, this);
  }

  readonly node = element('figure', { class: 'wb-chart' });

  /** How the curves of the next update are drawn. */
  style: IStyle;
  curves: readonly ICurve[] = [];
  marks: readonly IShownMark[] = [];
  layout: ILayout = layOut([], { log: false, smoothing: 0 });

  get family(): Family {
    return this.options.family;
  }

  get theme(): ITheme {
    this._theme ??= readTheme(this.node);
    return this._theme;
  }

  get across(): string {
    return this.style.time ? 'time' : 'iteration';
  }

  get whole(): Range | null {
    return spanOf(this._given);
  }

  get shown(): Range | null {
    return this.options.zoom.range ?? this.whole;
  }

  get stops(): ArrayLike<number> {
    return this.layout.data[0];
  }

  /**
   * Have `curves` drawn when it is due. The series themselves may grow before that.
   *
   * @param slowest - the slowest rank; -1 when unknown
   * @param hasRanges - whether least and greatest values are shown, here or in a chart beside it
   */
  update(curves: readonly ICurve[], slowest = -1, hasRanges = false): void {
    this._given = curves;
    this._slowest = slowest;
    this._hasRanges = hasRanges;
    this._pacer.request();
  }

  /** Describe the curves again, by their labels, without drawing them. */
  describe(description: (label: string) => string): void {
    const said = (one: ICurve) => ({
      ...one,
      description: description(one.label)
    });
    this._given = this._given.map(said);
    this.curves = this.curves.map(said);
    if (this._plot) {
      setAttribute(this._picture, 'aria-label', this._words());
    }
  }

  /** Have `marks` drawn from the next update on. */
  setMarks(marks: readonly IShownMark[]): void {
    this.marks = marks;
  }

  /** The theme has changed. */
  refreshTheme(): void {
    this._theme = null;
    this._shape = '';
    this._pacer.request();
  }

  nearest(iteration: number): number {
    return nearest(this.stops, iteration);
  }

  says(iteration: number): string {
    const values = this.curves.map(
      ({ label, series }) =>
        `${label} ${number(series.median[series.nearest(iteration)])}`
    );
    const where = placeText(iteration, this.style.time);
    return [`${where}: ${values.join(', ')}`, ...this._redone(iteration)].join(
      '; '
    );
  }

  onPoint(iteration: number | null): void {
    this._hasMouse = iteration !== null;
    this._isPointing = true;
    this.options.zoom.point(iteration);
    this._isPointing = false;
  }

  onSelect(range: Range): void {
    this.options.zoom.set(range);
  }

  onReset(): void {
    this.options.zoom.set(null);
  }

  dispose(): void {
    this.options.zoom.changed.disconnect(this._onZoom, this);
    this._pacer.dispose();
    this._resizes.disconnect();
    this._plot?.destroy();
    this._plot = null;
    this.node.remove();
  }

  private _draw(): void {
    const { zoom } = this.options;
    const width = Math.floor(this._picture.clientWidth);
    if (!width || !this.whole) {
      return;
    }
    this.curves = this._given
      .filter(({ series }) => series.length)
      .map(curve => ({ ...curve, series: zoom.refined(curve.series) }));
    this.layout = layOut(this.curves, this.style, this.shown, width);
    const shape = this._shapeNow();
    if (!this._plot || shape !== this._shape) {
      this._shape = shape;
      this._build(width);
    } else {
      if (this._plot.width !== width) {
        this._plot.setSize({ width, height: HEIGHT });
      }
      this._plot.setData(this.layout.data);
    }
    if (this._hasMouse) {
      // The curve may have moved below the mouse.
      this.onPoint(pointed(this, this._plot!));
    }
    this._showCursor();
    setAttribute(this._picture, 'role', 'img');
    setAttribute(this._picture, 'aria-label', this._words());
  }

  /** What is drawn, for those who do not see it. */
  private _words(): string {
    const curves = this.curves.flatMap(({ description }) => description || []);
    const marks = this.marks.map(({ iteration, text }) => {
      const where = `iteration ${integer(iteration)}`;
      return `${where}: ${text}`;
    });
    return [...curves, ...marks].join('; ');
  }

  private _build(width: number): void {
    const { curves, theme } = this;
    this._plot?.destroy();
    this._plot = makePlot(this, this._picture, width, HEIGHT);
    const looks = curves.map((curve, place) => ({
      colour: theme.curves[curve.colour % theme.curves.length],
      dash: dashOf(theme, curve, place)
    }));
    this._table.rebuild(curves, looks, this._slowest, this._hasRanges);
  }

  /** All but the values: while it stays, the plot is kept. */
  private _shapeNow(): string {
    const { curves, style } = this;
    return JSON.stringify([
      style.log,
      style.time,
      this._slowest,
      this._hasRanges,
      linesOf(curves, style),
      curves.map(one => [one.label, one.colour, one.dashed, one.series.hasBand])
    ]);
  }

  private _showCursor(): void {
    const { cursor } = this.options.zoom;
    if (!this._plot) {
      return;
    }
    if (!this._hasMouse) {
      const left = cursor === null ? -10 : this._plot.valToPos(cursor, 'x');
      this._plot.setCursor({ left, top: cursor === null ? -10 : 0 }, false);
    }
    this._table.show(this.curves, cursor, this.style.time);
    this._showNote(cursor);
    this._reader.update();
  }

  /** What was done again at an iteration, a text for each attempt. */
  private _redone(iteration: number): string[] {
    return redoneAt(this.curves, iteration).map(
      ({ text, values }) =>
        `${text}: ${values.map(one => number(one)).join(', ')}`
    );
  }

  /** Say beside the cursor what was done again there. */
  private _showNote(cursor: number | null): void {
    const said = cursor === null ? [] : this._redone(cursor);
    this._note.hidden = !said.length;
    if (said.length) {
      setText(this._note, said.join('\n'));
      const { left = 0, width } = this._plot!.over.getBoundingClientRect();
      const start = left - this._picture.getBoundingClientRect().left;
      const at = this._plot!.valToPos(cursor!, 'x');
      const isRight = at > width / 2;
      this._note.style.left = isRight ? '' : `${start + at}px`;
      this._note.style.right = isRight
        ? `${this._picture.clientWidth - start - at}px`
        : '';
    }
  }

  private _onZoom(_: Zoom, change: 'range' | 'finer' | 'cursor'): void {
    if (change === 'cursor') {
      this._hasMouse &&= this._isPointing;
      this._showCursor();
    } else {
      this._pacer.request();
    }
  }

  private readonly _picture = element('div', { class: 'wb-picture' });
  private readonly _note = element('div', {
    class: 'wb-chartnote',
    'aria-hidden': 'true',
    hidden: 'true'
  });
  private readonly _table: ValueTable;
  private readonly _reader: ChartReader;
  private readonly _pacer: Pacer;
  private readonly _resizes: ResizeObserver;
  private _given: readonly ICurve[] = [];
  private _slowest = -1;
  private _hasRanges = false;
  private _theme: ITheme | null = null;
  private _plot: uPlot | null = null;
  private _shape = '';
  /** Whether the cursor is where the mouse is. */
  private _hasMouse = false;
  private _isPointing = false;
}
