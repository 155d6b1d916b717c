/**
 * Hold one curve in typed arrays, smooth it and thin it; nothing is drawn here.
 */
import type { Family, ISeriesUpdate } from '../protocol';

const FIRST_CAPACITY = 256;
const SINGLES = ['low', 'median', 'high', 'mean', 'slowest'] as const;

type Single = (typeof SINGLES)[number];

/** One curve: buckets of iterations in their order, in arrays that grow by doubling. */
export class Series {
  constructor(readonly name: string) {}

  /** What it measures, such as `loss`. */
  quantity = '';
  family: Family = 'other';
  isValidation = false;
  /** Of a stretch that a later attempt did again: the attempt that did it first; else 0. */
  attempt = 0;
  /** Iterations that a bucket stands for. */
  width = 1;
  /** How many ranks reported it. */
  ranks = 0;
  /** Number of buckets. */
  length = 0;
  /** Grows with every change. */
  version = 0;

  /** Iteration in the middle of each bucket. */
  get x(): Float64Array {
    return this._x.subarray(0, this.length);
  }

  get low(): Float32Array {
    return this._column('low');
  }

  get median(): Float32Array {
    return this._column('median');
  }

  get high(): Float32Array {
    return this._column('high');
  }

  get mean(): Float32Array {
    return this._column('mean');
  }

  get slowest(): Float32Array {
    return this._column('slowest');
  }

  /** Whether a bucket holds several values, and so spans a band. */
  get hasBand(): boolean {
    return this.ranks > 1 || this.width > 1;
  }

  /** The first and the last iteration that is known; null while there is none. */
  get span(): [first: number, last: number] | null {
    return this.length ? [this._x[0], this._x[this.length - 1]] : null;
  }

  /** Take in buckets: those with a known index replace the former ones. */
  apply(update: ISeriesUpdate): void {
    if (update.reset || update.width !== this.width) {
      this.length = 0;
    }
    this.quantity = update.quantity;
    this.family = update.family;
    this.isValidation = update.is_validation;
    this.attempt = update.attempt;
    this.width = update.width;
    this.ranks = update.ranks;
    this.version += 1;
    this._reserve(this.length + update.index.length);
    for (let i = 0; i < update.index.length; i++) {
      this._put(this._place(update.index[i]), update, i);
    }
  }

  /** The place of the bucket nearest to iteration `x`; -1 while there is none. */
  nearest(x: number): number {
    return nearest(this.x, x);
  }

  private _column(name: Single): Float32Array {
    return this._singles[name].subarray(0, this.length);
  }

  /** Where the bucket with `index` is, or should be put. */
  private _place(index: number): number {
    if (!this.length || index > this._index[this.length - 1]) {
      return this.length;
    }
    return firstFrom(this._index, this.length, index);
  }

  private _put(place: number, update: ISeriesUpdate, i: number): void {
    const isNew =
      place === this.length || this._index[place] !== update.index[i];
    if (isNew && place < this.length) {
      for (const column of [this._x, this._index, ...this._all()]) {
        column.copyWithin(place + 1, place, this.length);
      }
    }
    this.length += isNew ? 1 : 0;
    this._index[place] = update.index[i];
    this._x[place] = update.x[i];
    for (const name of SINGLES) {
      this._singles[name][place] = update[name][i];
    }
  }

  private _reserve(length: number): void {
    if (length <= this._index.length) {
      return;
    }
    let capacity = Math.max(FIRST_CAPACITY, this._index.length);
    while (capacity < length) {
      capacity *= 2;
    }
    this._x = grown(this._x, new Float64Array(capacity));
    this._index = grown(this._index, new Int32Array(capacity));
    for (const name of SINGLES) {
      this._singles[name] = grown(
        this._singles[name],
        new Float32Array(capacity)
      );
    }
  }

  private _all(): Float32Array[] {
    return SINGLES.map(name => this._singles[name]);
  }

  private _x = new Float64Array(0);
  private _index = new Int32Array(0);
  private readonly _singles: { [name in Single]: Float32Array } = {
    low: new Float32Array(0),
    median: new Float32Array(0),
    high: new Float32Array(0),
    mean: new Float32Array(0),
    slowest: new Float32Array(0)
  };
}

/**
 * Average around each point with weights that fall exponentially to both sides, so that nothing
 * lags; `workbench/view/pictures/curve_picture.py` does the same.
 *
 * @param reach - the distance along `x` over which a weight falls to 1/e: where there are more
 *   points, more of them make an average
 */
export function smooth(
  x: ArrayLike<number>,
  values: ArrayLike<number>,
  reach: number
): Float64Array {
  const sums = new Float64Array(values.length);
  const weights = new Float64Array(values.length);
  const sweep = (first: number, step: 1 | -1) => {
    let [sum, total, before] = [0, 0, NaN];
    for (let i = first; i >= 0 && i < values.length; i += step) {
      if (Number.isFinite(values[i])) {
        const away = Math.abs(x[i] - before);
        const kept = total ? Math.exp(-away / reach) : 0;
        // Each sweep gives what is before a point; the point itself counts once.
        sums[i] += kept * sum;
        weights[i] += kept * total;
        sum = kept * sum + values[i];
        total = kept * total + 1;
        before = x[i];
      }
    }
  };
  sweep(0, 1);
  sweep(values.length - 1, -1);
  return sums.map((sum, i) =>
    Number.isFinite(values[i]) ? (sum + values[i]) / (weights[i] + 1) : NaN
  );
}

/**
 * Thin columns to at most `most` buckets, and one more where the first is cut.
 *
 * Of `low` and `high` every extreme is kept, `x` stays in the middle, and all else is averaged.
 * Always as many buckets become one, counted from the first there is, so that a growing curve does not move.
 *
 * @param first - the place to begin at
 * @param end - the place to end before
 */
export function thin<K extends string>(
  columns: { [name in K]: ArrayLike<number> },
  most: number,
  first = 0,
  end = Infinity
): { [name in K]: ArrayLike<number> } {
  const names = Object.keys(columns) as K[];
  const length = Math.min(end, columns[names[0]].length);
  const factor = Math.max(1, Math.ceil((length - first) / most));
  const begin = Math.floor(first / factor) * factor;
  const thinned = { ...columns };
  for (const name of names) {
    const column = columns[name];
    const gather = GATHERS[name] ?? average;
    thinned[name] =
      factor === 1
        ? part(column, begin, length)
        : Float64Array.from(
            { length: Math.ceil((length - begin) / factor) },
            (_, i) => {
              const from = begin + i * factor;
              return gather(column, from, Math.min(length, from + factor));
            }
          );
  }
  return thinned;
}

/** The place of the number nearest to `wanted` in an ascending array; -1 in an empty one. */
export function nearest(ascending: ArrayLike<number>, wanted: number): number {
  const place = firstFrom(ascending, ascending.length, wanted);
  if (place === 0) {
    return ascending.length ? 0 : -1;
  }
  const isBefore =
    place === ascending.length ||
    wanted - ascending[place - 1] <= ascending[place] - wanted;
  return isBefore ? place - 1 : place;
}

/** The first place whose number is not below `wanted`. */
function firstFrom(
  ascending: ArrayLike<number>,
  length: number,
  wanted: number
): number {
  let [low, high] = [0, length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle] < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

function grown<T extends Float64Array | Int32Array | Float32Array>(
  from: T,
  to: T
): T {
  to.set(from);
  return to;
}

function part(
  column: ArrayLike<number>,
  first: number,
  end: number
): ArrayLike<number> {
  return column instanceof Float32Array || column instanceof Float64Array
    ? column.subarray(first, end)
    : Array.from(column).slice(first, end);
}

function least(column: ArrayLike<number>, first: number, end: number): number {
  let found = NaN;
  for (let i = first; i < end; i++) {
    found = column[i] >= found ? found : ifNumber(column[i], found);
  }
  return found;
}

function greatest(
  column: ArrayLike<number>,
  first: number,
  end: number
): number {
  let found = NaN;
  for (let i = first; i < end; i++) {
    found = column[i] <= found ? found : ifNumber(column[i], found);
  }
  return found;
}

function average(
  column: ArrayLike<number>,
  first: number,
  end: number
): number {
  let [sum, count] = [0, 0];
  for (let i = first; i < end; i++) {
    if (!Number.isNaN(column[i])) {
      sum += column[i];
      count += 1;
    }
  }
  return count ? sum / count : NaN;
}

const GATHERS: { [name: string]: typeof average | undefined } = {
  x: (x, first, end) => (x[first] + x[end - 1]) / 2,
  low: least,
  high: greatest
};

function ifNumber(value: number, otherwise: number): number {
  return Number.isNaN(value) ? otherwise : value;
}
