/**
 * Lay curves, each with iterations of its own, on the common ones that uPlot wants.
 */
import type uPlot from 'uplot';

import { nearest, smooth, thin, type Series } from './series';
import type { Range } from './zoom';

/** A line finer than this is thinned before it is drawn. */
const MOST_BUCKETS = 4_000;
/** CSS pixels of a bucket of a band: what is finer takes long to paint, and is not seen. */
const BAND_PIXELS = 1.5;
const FEWEST_BUCKETS = 200;

/** A curve as it is to be drawn. */
export interface ICurve {
  series: Series;
  label: string;
  /** What it shows, for those who do not see it; empty while it is not known. */
  description: string;
  /** Which of the theme's colours. */
  colour: number;
  dashed: boolean;
  /** The run's last value as it is stored, of a run that is over. */
  last?: number;
  /** The least and the greatest of its ranks' last values, likewise. */
  lastRange?: Range;
  /** What later attempts did again, drawn faintly. */
  redone?: readonly IRedone[];
}

/** A stretch of a curve that a later attempt did again. */
export interface IRedone {
  series: Series;
  /** What is said where it is pointed at. */
  text: string;
}

/** A curve of so few values shows each, and is not smoothed. */
export const FEW = 30;

/** How curves are drawn. */
export interface IStyle {
  log: boolean;
  /** How far averages reach to each side, in percent of what is in sight; 0 for none. */
  smoothing: number;
  /** Whether curves are on the seconds since the run started, in place of iterations. */
  time?: boolean;
}

/** What makes a noisy curve legible, however many points it has. */
export const SMOOTHING = 2;

/** `raw`: what a smoothed line was before; `slowest`: the slowest rank alone. */
export type LineKind = 'redone' | 'raw' | 'slowest' | 'line';

export interface ILine {
  /** Place of the curve among the curves. */
  curve: number;
  kind: LineKind;
  /** Of a stretch that was done again: its place among those of its curve. */
  stretch?: number;
}

/** Values on common iterations: null is a gap, undefined means no bucket there. */
type Row = (number | null | undefined)[];

/** The columns of a curve as they are drawn: where they are in sight, and thinned. */
export interface IDrawn {
  x: ArrayLike<number>;
  low: ArrayLike<number>;
  high: ArrayLike<number>;
  raw: ArrayLike<number>;
  slowest: ArrayLike<number>;
  line: ArrayLike<number>;
}

export interface ILayout {
  lines: ILine[];
  /** The common iterations, then a row for each line. */
  data: uPlot.AlignedData;
  drawn: IDrawn[];
  /** The index of each drawn bucket of each curve among the common iterations. */
  places: Int32Array[];
  /** What is drawn of the stretches that were done again, of each curve. */
  redone: IStretch[][];
}

/** A stretch as it is drawn, in the columns of `IDrawn`. */
type IStretch = Pick<IDrawn, 'x' | 'line'>;

/**
 * Lay out `curves`; what has no place on a logarithmic scale becomes a gap.
 *
 * @param shown - the iterations in sight; null for all
 * @param width - CSS pixels for them
 */
export function layOut(
  curves: readonly ICurve[],
  style: IStyle,
  shown: Range | null = null,
  width = Infinity
): ILayout {
  const smoothed = (curve: ICurve, x: Float64Array, values: Float32Array) => {
    const [first, last] = shown ?? curve.series.span ?? [0, 0];
    return isSmoothed(curve, style)
      ? smooth(x, values, (style.smoothing / 100) * (last - first))
      : values;
  };
  const drawn = curves.map(curve => {
    const { x, median, slowest } = curve.series;
    const lines = {
      line: smoothed(curve, x, median),
      slowest: smoothed(curve, x, slowest)
    };
    return inSight(curve.series, lines, shown, width);
  });
  const redone = curves.map(curve =>
    (curve.redone ?? []).map(({ series }) => ({
      x: series.x,
      line: smoothed(curve, series.x, series.median)
    }))
  );
  const x = union([...drawn, ...redone.flat()].map(one => one.x));
  const places = drawn.map(one => placesIn(x, one.x));
  const lines = linesOf(curves, style);
  const rows = lines.map(({ curve, kind, stretch }) => {
    if (kind === 'redone') {
      const { x: own, line } = redone[curve][stretch!];
      return row(x.length, placesIn(x, own), line, style.log);
    }
    return row(x.length, places[curve], drawn[curve][kind], style.log);
  });
  const data = [x, ...rows] as uPlot.AlignedData;
  return { lines, data, drawn, places, redone };
}

/** The lines to draw, the most important last, so that it is on top. */
export function linesOf(curves: readonly ICurve[], style: IStyle): ILine[] {
  const redone = curves.flatMap((curve, i) =>
    (curve.redone ?? []).map((_, stretch): ILine => {
      return { curve: i, kind: 'redone', stretch };
    })
  );
  const kinds: LineKind[] = ['raw', 'slowest', 'line'];
  const lines = kinds.flatMap(kind =>
    curves
      .map((_, curve) => ({ curve, kind }))
      .filter(
        line =>
          kind === 'line' ||
          (kind === 'raw' && isSmoothed(curves[line.curve], style)) ||
          (kind === 'slowest' && hasSlowest(curves[line.curve].series))
      )
  );
  return [...redone, ...lines];
}

/** What is said of the stretches at an iteration that were done again. */
export function redoneAt(
  curves: readonly ICurve[],
  iteration: number
): { text: string; values: number[] }[] {
  const found = new Map<string, number[]>();
  for (const { redone } of curves) {
    for (const { series, text } of redone ?? []) {
      const [first, last] = series.span ?? [Infinity, -Infinity];
      if (first <= iteration && iteration <= last) {
        const value = series.median[series.nearest(iteration)];
        found.set(text, [...(found.get(text) ?? []), value]);
      }
    }
  }
  return [...found].map(([text, values]) => ({ text, values }));
}

/** Whether an average of `curve` is drawn, and what was reported faintly behind it. */
export function isSmoothed({ series }: ICurve, style: IStyle): boolean {
  return style.smoothing > 0 && series.length > FEW;
}

/** Whether the slowest rank is one of several, and reported `series` lately. */
export function hasSlowest(series: Series): boolean {
  return (
    series.ranks > 1 &&
    series.length > 0 &&
    !Number.isNaN(series.slowest[series.length - 1])
  );
}

/** The first and last iteration of all curves; null where there is none. */
export function spanOf(curves: readonly ICurve[]): Range | null {
  let [first, last] = [Infinity, -Infinity];
  for (const curve of curves) {
    for (const { series } of [curve, ...(curve.redone ?? [])]) {
      if (series.span) {
        first = Math.min(first, series.span[0]);
        last = Math.max(last, series.span[1]);
      }
    }
  }
  return first <= last ? [first, last] : null;
}

/**
 * The least and the greatest value in a range of iterations; null where there is none.
 *
 * @param log - whether only what is above zero counts
 */
export function heightOf(
  curves: readonly ICurve[],
  { drawn, redone }: ILayout,
  [first, last]: Range,
  log: boolean
): Range | null {
  let [low, high] = [Infinity, -Infinity];
  const take = (value: number) => {
    if (!log || value > 0) {
      low = value < low ? value : low;
      high = value > high ? value : high;
    }
  };
  drawn.forEach((one, curve) => {
    const { line, raw } = one;
    const columns = curves[curve].series.hasBand
      ? [one.low, one.high, line]
      : [raw, line];
    const begin = Math.max(0, nearest(one.x, first));
    const end = Math.min(one.x.length - 1, nearest(one.x, last));
    for (let i = begin; i <= end; i++) {
      columns.forEach(column => take(column[i]));
    }
  });
  for (const { x, line } of redone.flat()) {
    for (let i = 0; i < x.length; i++) {
      if (first <= x[i] && x[i] <= last) {
        take(line[i]);
      }
    }
  }
  return low <= high ? [low, high] : null;
}

/** What there is to be drawn of a curve, one bucket beyond both edges included. */
function inSight(
  series: Series,
  lines: Pick<IDrawn, 'line' | 'slowest'>,
  shown: Range | null,
  width: number
): IDrawn {
  const { x, low, median, high, hasBand } = series;
  const first = shown ? Math.max(0, series.nearest(shown[0]) - 1) : 0;
  const end = shown ? series.nearest(shown[1]) + 2 : series.length;
  const most = hasBand
    ? Math.max(FEWEST_BUCKETS, width / BAND_PIXELS)
    : MOST_BUCKETS;
  const columns = { x, low, high, raw: median, ...lines };
  return thin(columns, Math.min(MOST_BUCKETS, most), first, end);
}

function union(xs: ArrayLike<number>[]): Float64Array {
  if (xs.length === 1) {
    return Float64Array.from(xs[0]);
  }
  const all = new Float64Array(xs.reduce((sum, x) => sum + x.length, 0));
  let at = 0;
  for (const x of xs) {
    all.set(x, at);
    at += x.length;
  }
  all.sort();
  let length = 0;
  for (const x of all) {
    if (!length || all[length - 1] !== x) {
      all[length++] = x;
    }
  }
  return all.slice(0, length);
}

function placesIn(all: Float64Array, x: ArrayLike<number>): Int32Array {
  const places = new Int32Array(x.length);
  let at = 0;
  for (let i = 0; i < x.length; i++) {
    while (all[at] < x[i]) {
      at += 1;
    }
    places[i] = at;
  }
  return places;
}

function row(
  length: number,
  places: Int32Array,
  values: ArrayLike<number>,
  log: boolean
): Row {
  const made: Row = new Array(length).fill(undefined);
  for (let i = 0; i < places.length; i++) {
    const value = values[i];
    made[places[i]] = Number.isNaN(value) || (log && value <= 0) ? null : value;
  }
  return made;
}
