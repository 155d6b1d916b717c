/**
 * Keep the range of iterations that several charts show, and the finer curves of it.
 */
import { Signal, type ISignal } from '@lumino/signaling';

import type { IFrame } from '../protocol';
import { Series } from './series';

/** First and last iteration. */
export type Range = readonly [first: number, last: number];

/** Fetches the curves of a range in finer buckets; null when there are none. */
export type Finer = (first: number, last: number) => Promise<IFrame | null>;

const SETTLING = 200;
/** Milliseconds after which the newest end of a live curve is fetched again. */
const STALE = 3_000;
/** Room at both sides, as a share of the range, so that curves continue beyond the edge. */
const ROOM = 0.05;
const NARROWEST = 4;

export class Zoom {
  constructor(private readonly finer: Finer | null = null) {}

  /** Emitted when the range changes, when finer curves come, and when the cursor moves. */
  get changed(): ISignal<this, 'range' | 'finer' | 'cursor'> {
    return this._changed;
  }

  /** What is shown; null for all. */
  get range(): Range | null {
    return this._range;
  }

  /** The iteration under the cursor of one of the charts; null for none. */
  get cursor(): number | null {
    return this._cursor;
  }

  /** The finer curve of the range where there is one, else `series` itself. */
  refined(series: Series): Series {
    const found = this._range && this._fine.get(series.name);
    return found && found.width < series.width ? found : series;
  }

  /** Have ranges and the cursor in seconds, or in iterations; nothing finer is there in time. */
  setTime(isTime: boolean): void {
    if (isTime !== this._isTime) {
      this._isTime = isTime;
      this.point(null);
      this.set(null);
    }
  }

  set(range: Range | null): void {
    if (range && !this._isTime) {
      const [first, last] = range;
      const lack = Math.max(0, NARROWEST - (last - first)) / 2;
      range = [first - lack, last + lack];
    }
    this._range = range;
    if (!range || !this._covers(range)) {
      this._fine.clear();
      this._fetched = null;
    }
    this._changed.emit('range');
    clearTimeout(this._timer);
    if (range && this.finer && !this._isTime && !this._isExact) {
      this._timer = setTimeout(() => void this._fetch(range), SETTLING);
    }
  }

  /**
   * Show a larger or smaller part.
   *
   * @param factor - by which the range becomes wider
   * @param whole - what there is to be shown
   */
  scale(factor: number, whole: Range): void {
    const [first, last] = this._range ?? whole;
    const isInside =
      this._cursor !== null && first <= this._cursor && this._cursor <= last;
    const middle = isInside ? this._cursor! : (first + last) / 2;
    const range: Range = [
      Math.max(whole[0], middle - (middle - first) * factor),
      Math.min(whole[1], middle + (last - middle) * factor)
    ];
    const isAll = range[0] <= whole[0] && range[1] >= whole[1];
    this.set(isAll ? null : range);
  }

  /** Move the cursor of all charts; null takes it away. */
  point(iteration: number | null): void {
    if (iteration !== this._cursor) {
      this._cursor = iteration;
      this._changed.emit('cursor');
    }
  }

  /** Curves have grown up to `newest`: what is finer may lack their end. */
  grow(newest: number): void {
    const range = this._range;
    if (!range || !this.finer || !this._fetched) {
      return;
    }
    const lacks =
      this._fetched.newest < newest && this._fetched.newest < range[1];
    if (lacks && Date.now() - this._fetched.when > STALE) {
      void this._fetch(range);
    }
  }

  dispose(): void {
    clearTimeout(this._timer);
    this._range = null;
    Signal.clearData(this);
  }

  /** Whether every iteration of what is shown has a bucket of its own already. */
  private get _isExact(): boolean {
    const fine = [...this._fine.values()];
    return fine.length > 0 && fine.every(series => series.width === 1);
  }

  private _covers([first, last]: Range): boolean {
    const known = this._fetched?.range;
    return !!known && known[0] <= first && last <= known[1];
  }

  private async _fetch(range: Range): Promise<void> {
    const room = ROOM * (range[1] - range[0]);
    const wider = [
      Math.max(0, Math.floor(range[0] - room)),
      Math.ceil(range[1] + room)
    ] as const;
    this._fetched = { range: wider, newest: Infinity, when: Date.now() };
    let frame: IFrame | null = null;
    try {
      frame = (await this.finer?.(...wider)) ?? null;
    } catch {
      // The coarser curve is shown already; the next zoom asks again.
    }
    if (range !== this._range || !frame) {
      return;
    }
    let newest = 0;
    this._fine.clear();
    for (const update of frame.series) {
      const series = new Series(update.name);
      series.apply(update);
      this._fine.set(update.name, series);
      newest = Math.max(newest, series.span?.[1] ?? 0);
    }
    this._fetched = { range: wider, newest, when: Date.now() };
    this._changed.emit('finer');
  }

  private readonly _changed = new Signal<this, 'range' | 'finer' | 'cursor'>(
    this
  );
  private readonly _fine = new Map<string, Series>();
  private _fetched: { range: Range; newest: number; when: number } | null =
    null;
  private _isTime = false;
  private _range: Range | null = null;
  private _cursor: number | null = null;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}
