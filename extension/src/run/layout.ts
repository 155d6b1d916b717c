/**
 * Lay curves, each with iterations of its own, on the common ones that uPlot wants.
 */
import type uPlot from 'uplot';

import { nearest, smooth, thin, type IColumns, type Series } from './series';
import type { Range } from './zoom';

/** A curve finer than this is thinned before it is drawn: no screen has more columns. */
const MOST_BUCKETS = 4_000;

/** A curve as it is to be drawn. */
export interface ICurve {
  series: Series;
  label: string;
  /** Which of the theme's colours. */
  colour: number;
  dashed: boolean;
}

/** A curve of so few values shows each, and is not smoothed. */
export const FEW = 30;

/** How curves are drawn. */
export interface IStyle {
  log: boolean;
  /** Weight of the smoothing, from 0 to below 1. */
  smoothing: number;
}

/** `raw`: what a smoothed line was before; `slowest`: the slowest rank alone. */
export type LineKind = 'raw' | 'slowest' | 'line';

export interface ILine {
  /** Place of the curve among the curves. */
  curve: number;
  kind: LineKind;
}

/** Values on common iterations: null is a gap, undefined means no bucket there. */
type Row = (number | null | undefined)[];

export interface ILayout {
  lines: ILine[];
  /** The common iterations, then a row for each line. */
  data: uPlot.AlignedData;
  /** The columns of each curve as they are drawn. */
  columns: IColumns[];
  /** The smoothed line of each curve; the median where nothing is smoothed. */
  smoothed: ArrayLike<number>[];
  /** Where each bucket of each curve stands among the common iterations. */
  places: Int32Array[];
}

/** Lay out `curves`; what has no place on a logarithmic scale becomes a gap. */
export function layOut(curves: readonly ICurve[], style: IStyle): ILayout {
  const columns = curves.map(({ series }) => thin(series, MOST_BUCKETS));
  const smoothed = columns.map(({ median }) =>
    style.smoothing > 0 && median.length > FEW
      ? smooth(median, style.smoothing)
      : median
  );
  const x = union(columns.map(one => one.x));
  const places = columns.map(one => placesIn(x, one.x));
  const lines = linesOf(curves, style);
  const rows = lines.map(({ curve, kind }): Row => {
    const values = {
      raw: columns[curve].median,
      slowest: columns[curve].slowest,
      line: smoothed[curve]
    }[kind];
    return row(x.length, places[curve], values, style.log);
  });
  return {
    lines,
    data: [x, ...rows] as uPlot.AlignedData,
    columns,
    smoothed,
    places
  };
}

/** The lines to draw, the most important last, so that it is on top. */
export function linesOf(curves: readonly ICurve[], style: IStyle): ILine[] {
  const kinds: LineKind[] = ['raw', 'slowest', 'line'];
  return kinds.flatMap(kind =>
    curves
      .map((_, curve) => ({ curve, kind }))
      .filter(
        line =>
          kind === 'line' ||
          (kind === 'raw' &&
            style.smoothing > 0 &&
            curves[line.curve].series.length > FEW) ||
          (kind === 'slowest' && hasSlowest(curves[line.curve].series))
      )
  );
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
  for (const { series } of curves) {
    if (series.span) {
      first = Math.min(first, series.span[0]);
      last = Math.max(last, series.span[1]);
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
  { columns, smoothed }: ILayout,
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
  columns.forEach((one, curve) => {
    const drawn = curves[curve].series.hasBand
      ? [one.low, one.high]
      : [one.median];
    const begin = Math.max(0, nearest(one.x, first));
    const end = Math.min(one.x.length - 1, nearest(one.x, last));
    for (let i = begin; i <= end; i++) {
      drawn.forEach(column => take(column[i]));
      take(smoothed[curve][i]);
    }
  });
  return low <= high ? [low, high] : null;
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
