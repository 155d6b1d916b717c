/**
 * The newest output of ranks, as lines.
 */
import type { IDisplayed, Piece } from '../protocol';
import { LineReader } from './lines';

/** Characters that are kept of all ranks together. */
export const KEPT_CHARACTERS = 300_000;

/** Characters that are kept of what all ranks together display. */
export const KEPT_DISPLAYED = 30_000_000;

const LINE_LIMIT = 10_000;

type Stream = 'stdout' | 'stderr';

/** A line and who wrote it. */
export interface ILine {
  /** Counts all lines of the run, those included that are no longer kept. */
  number: number;
  rank: number;
  stream: 'stdout' | 'stderr';
  text: string;
  /** What is displayed instead of the text; 0 for nothing. */
  place: number;
}

/** What all ranks wrote, in the order of the lines' ends. */
export class Output {
  constructor(private readonly kept = KEPT_CHARACTERS) {}

  /** Sequence number up to which output was taken in. */
  after = 0;
  /** Whether something that came before the first line is missing. */
  isCut = false;
  /** Counts how often lines were taken away that are not the oldest. */
  clearings = 0;

  /** The lines that have ended. */
  get lines(): readonly ILine[] {
    return this._lines;
  }

  /** The lines that have no end yet. */
  get partial(): ILine[] {
    const unended: ILine[] = [];
    for (const { rank, stream, reader } of this._writers.values()) {
      if (reader.partial) {
        const text = reader.partial;
        unended.push({ number: -1, rank, stream, text, place: 0 });
      }
    }
    return unended;
  }

  /** The ranks that wrote something. */
  get ranks(): number[] {
    return [...this._ranks].sort((a, b) => a - b);
  }

  /** What is displayed at `place`; nothing where it is no longer kept. */
  displayed(place: number): IDisplayed | undefined {
    return this._displayed.get(place);
  }

  /** Take in what one rank did. */
  take(piece: Piece): void {
    switch (piece[1]) {
      case 'display':
        this._show(piece[0], piece[2], piece[3]);
        break;
      case 'update':
        if (this._displayed.has(piece[3].place)) {
          this._keep(piece[3]);
        }
        break;
      case 'clear':
        this._clear(piece[0]);
        break;
      default:
        this.add(...(piece as [number, 'stdout' | 'stderr', string]));
    }
  }

  /** Take in what one rank wrote. */
  add(rank: number, stream: 'stdout' | 'stderr', text: string): void {
    const key = `${rank} ${stream}`;
    let writer = this._writers.get(key);
    if (!writer) {
      writer = { rank, stream, reader: new LineReader() };
      this._writers.set(key, writer);
      this._ranks.add(rank);
    }
    for (const line of writer.reader.feed(text, LINE_LIMIT)) {
      this._push(rank, stream, line);
    }
    this._trim();
  }

  private _push(rank: number, stream: Stream, text: string, place = 0): void {
    this._lines.push({ number: this._count++, rank, stream, text, place });
    this._size += text.length + 1;
  }

  private _show(rank: number, words: string, what: IDisplayed): void {
    this._ranks.add(rank);
    for (const stream of ['stdout', 'stderr'] as const) {
      // An unfinished line comes before the display after it.
      if (this._writers.get(`${rank} ${stream}`)?.reader.partial) {
        this.add(rank, stream, '\n');
      }
    }
    this._push(rank, 'stdout', words.trimEnd(), what.place);
    this._keep(what);
    this._trim();
  }

  private _keep(what: IDisplayed): void {
    this._forget(what.place);
    this._displayed.set(what.place, what);
    this._displayedSize += sizeOf(what);
    for (const place of this._displayed.keys()) {
      if (this._displayedSize <= KEPT_DISPLAYED) {
        break;
      }
      this._forget(place);
    }
  }

  private _forget(place: number): void {
    const before = this._displayed.get(place);
    if (before) {
      this._displayedSize -= sizeOf(before);
      this._displayed.delete(place);
    }
  }

  private _clear(rank: number): void {
    this.clearings += 1;
    const kept = this._lines.filter(line => line.rank !== rank);
    for (const line of this._lines) {
      if (line.rank === rank) {
        this._size -= line.text.length + 1;
        this._forget(line.place);
      }
    }
    // Who counts on, counts on from these: numbers have no holes.
    kept.forEach((line, index) => {
      line.number = this._count - kept.length + index;
    });
    this._lines.splice(0, this._lines.length, ...kept);
    this._writers.delete(`${rank} stdout`);
    this._writers.delete(`${rank} stderr`);
  }

  private _trim(): void {
    let away = 0;
    while (this._size > this.kept && away < this._lines.length) {
      this._size -= this._lines[away].text.length + 1;
      this._forget(this._lines[away].place);
      away += 1;
    }
    if (away) {
      this._lines.splice(0, away);
      this.isCut = true;
    }
  }

  private readonly _lines: ILine[] = [];
  private readonly _displayed = new Map<number, IDisplayed>();
  private _displayedSize = 0;
  private readonly _ranks = new Set<number>();
  private readonly _writers = new Map<
    string,
    { rank: number; stream: 'stdout' | 'stderr'; reader: LineReader }
  >();
  private _count = 0;
  private _size = 0;
}

function sizeOf({ data }: IDisplayed): number {
  return Object.values(data).reduce((sum, text) => sum + text.length, 0);
}
