/**
 * Runs, points and connections to test with.
 */
import type { IFrame, IRun, ISeriesUpdate, ISurvey } from '../../protocol';

/** Bytes that one bucket takes in a frame. */
const BUCKET_BYTES = 32;

/** A run that goes on. */
export function aRun(changes: Partial<IRun> = {}): IRun {
  return {
    id: '260101-120000-abcd',
    name: 'digits',
    kind: 'cell',
    cluster: 'default',
    state: 'running',
    is_ended: false,
    is_stopping: false,
    ranks: 4,
    generation: 1,
    created: 1000,
    started: 1001,
    ended: 0,
    now: 1035,
    iteration: 420,
    fraction: 0.42,
    seconds_taken: 34,
    failed_rank: -1,
    failed_host: '',
    error: '',
    message: '',
    parameters: {},
    arguments: [],
    word: changes.is_stopping ? 'stopping…' : (changes.state ?? 'running'),
    values: {},
    line: ['iteration 420 of 1,000'],
    ...changes
  };
}

/** The same run when it has come to an end. */
export function anEndedRun(changes: Partial<IRun> = {}): IRun {
  return aRun({
    ...{ state: 'finished', is_ended: true, ended: 1084, now: 1090 },
    ...{ iteration: 1000, fraction: 1 },
    seconds_taken: 83,
    ...changes
  });
}

/** What two nodes measured. */
export function aSurvey(changes: Partial<ISurvey> = {}): ISurvey {
  const columns = ['from → to', 'Gbit/s', 'µs'];
  const links = [['beta → alpha', '0.7', '60']];
  const rates = [['alpha', 'disk write', '310 MB/s']];
  return {
    heading: '2 nodes with 4 ranks, measured today',
    remarks: ['beta lost half its bandwidth since Tuesday.'],
    tables: [
      { title: 'Links', columns, rows: links, is_open: true },
      { title: 'On each node', columns: ['node', 'what', 'rate'], rows: rates }
    ],
    description: 'links from 0.7 to 1.4 Gbit/s',
    picture: 'iVBORw0K',
    ...changes
  };
}

/** Buckets with these numbers, whose values are a tenth of them unless given. */
export function buckets(
  index: number[],
  changes: Partial<ISeriesUpdate> = {}
): ISeriesUpdate {
  const { width = 1 } = changes;
  const values = Float32Array.from(index, i => i / 10);
  return {
    name: 'main/loss',
    ...{ quantity: changes.name ?? 'loss', family: 'loss' },
    is_validation: false,
    attempt: 0,
    reset: false,
    width,
    ranks: 1,
    x: Float64Array.from(index, i => i * width + (width - 1) / 2),
    index: Int32Array.from(index),
    low: values,
    median: values,
    high: values,
    mean: values,
    slowest: values,
    ...changes
  };
}

/** A frame with points of `series`. */
export function aFrame(
  series: ISeriesUpdate[],
  changes: Partial<IFrame> = {}
): IFrame {
  return { feed: 'f', version: 1, points: 9, slowest: -1, series, ...changes };
}

/** The bytes of a frame, as Python writes them. */
export function encoded(frame: IFrame): ArrayBuffer {
  const header = {
    ...frame,
    series: frame.series.map(one => ({
      ...{ name: one.name, quantity: one.quantity, family: one.family },
      is_validation: one.is_validation,
      attempt: one.attempt,
      ...{ reset: one.reset, width: one.width },
      ...{ ranks: one.ranks },
      count: one.index.length
    }))
  };
  let text = JSON.stringify(header);
  text += ' '.repeat((8 - ((4 + text.length) % 8)) % 8);
  const count = frame.series.reduce((sum, one) => sum + one.index.length, 0);
  const bytes = new Uint8Array(4 + text.length + BUCKET_BYTES * count);
  new DataView(bytes.buffer).setUint32(0, text.length, true);
  bytes.set(new TextEncoder().encode(text), 4);
  let at = 4 + text.length;
  for (const one of frame.series) {
    const { x, index, low, median, high, mean, slowest } = one;
    for (const column of [x, index, low, median, high, mean, slowest]) {
      const { buffer, byteOffset, byteLength } = column;
      bytes.set(new Uint8Array(buffer, byteOffset, byteLength), at);
      at += byteLength;
    }
  }
  return bytes.buffer;
}

/** A frame in base64, as a notebook keeps it. */
export function kept(frame: IFrame): string {
  return btoa(String.fromCharCode(...new Uint8Array(encoded(frame))));
}

/** A connection whose other side is the test. */
export class FakeSocket {
  constructor(readonly url: string) {
    FakeSocket.made.push(this);
  }

  static made: FakeSocket[] = [];

  static get last(): FakeSocket {
    return FakeSocket.made[FakeSocket.made.length - 1];
  }

  static readonly create = (url: string) =>
    new FakeSocket(url) as unknown as WebSocket;

  binaryType = '';
  readyState = 0;
  isClosed = false;
  sent: unknown[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onclose: ((event: { code: number; reason: string }) => void) | null = null;

  send(text: string): void {
    this.sent.push(JSON.parse(text));
  }

  close(): void {
    this.isClosed = true;
    this.readyState = 3;
  }

  /** The server accepts, and greets. */
  greet(run = aRun(), feed = 'f'): void {
    this.readyState = 1;
    this.onopen?.();
    this.say({ type: 'hello', feed, run });
  }

  /** The server says something. */
  say(message: unknown): void {
    this.onmessage?.({ data: JSON.stringify(message) });
  }

  /** The server sends points. */
  give(frame: IFrame): void {
    this.onmessage?.({ data: encoded(frame) });
  }

  /** The connection is cut, or the server closes it. */
  cut(code = 1006, reason = ''): void {
    this.readyState = 3;
    this.onclose?.({ code, reason });
  }
}

/** Have the page be seen, or not. */
export function show(isSeen: boolean): void {
  Object.defineProperty(document, 'hidden', {
    configurable: true,
    value: !isSeen
  });
  document.dispatchEvent(new Event('visibilitychange'));
}
