/**
 * Keep the newest of what ranks wrote, as lines.
 */
import { LineReader } from './lines';

/** Characters that are kept of all ranks together. */
export const KEPT_CHARACTERS = 300_000;

const LINE_LIMIT = 10_000;

/** A line and who wrote it. */
export interface ILine {
  /** Counts all lines of the run, those included that are no longer kept. */
  number: number;
  rank: number;
  stream: 'stdout' | 'stderr';
  text: string;
}

/** What all ranks wrote, in the order of the lines' ends. */
export class Output {
  constructor(private readonly kept = KEPT_CHARACTERS) {}

  /** Sequence number up to which output was taken in. */
  after = 0;
  /** Whether something that came before the first line is missing. */
  isCut = false;

  /** The lines that have ended. */
  get lines(): readonly ILine[] {
    return this._lines;
  }

  /** The lines that have no end yet. */
  get partial(): ILine[] {
    const unended: ILine[] = [];
    for (const { rank, stream, reader } of this._writers.values()) {
      if (reader.partial) {
        unended.push({ number: -1, rank, stream, text: reader.partial });
      }
    }
    return unended;
  }

  /** The ranks that wrote something. */
  get ranks(): number[] {
    return [...this._ranks].sort((a, b) => a - b);
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
      this._lines.push({ number: this._count++, rank, stream, text: line });
      this._size += line.length + 1;
    }
    this._trim();
  }

  private _trim(): void {
    let away = 0;
    while (this._size > this.kept && away < this._lines.length) {
      this._size -= this._lines[away].text.length + 1;
      away += 1;
    }
    if (away) {
      this._lines.splice(0, away);
      this.isCut = true;
    }
  }

  private readonly _lines: ILine[] = [];
  private readonly _ranks = new Set<number>();
  private readonly _writers = new Map<
    string,
    { rank: number; stream: 'stdout' | 'stderr'; reader: LineReader }
  >();
  private _count = 0;
  private _size = 0;
}
