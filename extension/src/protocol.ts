/**
 * What the server and a page say to each other: the JSON values, and the binary frames of points.
 *
 * The same frames travel over the WebSocket, in an anywidget's messages, and inside a saved
 * notebook. `workbench/core/curves/frames.py` writes them.
 */

import type {
  IAck,
  IFrameHeader,
  IOutput,
  IOutputRequest,
  IRun,
  ISeriesHeader,
  ISteps,
  ISurvey
} from './messages';

export type * from './messages';
export { FAMILIES, STEP_PARTS } from './messages';

/** The MIME type of a `%%dist_train` cell's output. */
export const RUN_TYPE = 'application/vnd.workbench.run+json';

export type ServerMessage =
  | { type: 'hello'; feed: string; run: IRun }
  | { type: 'run'; run: IRun }
  | ({ type: 'steps' } & ISteps)
  | ({ type: 'output' } & IOutput)
  /** The run is complete. The server closes, or waits for the page if it came with `stay=1`. */
  | { type: 'end' };

export type PageMessage = IAck | IOutputRequest;

/** Close codes of the WebSocket. */
export const UNKNOWN_RUN = 4404;
export const STORE_TROUBLE = 4503;

/** What is kept in the notebook under RUN_TYPE. */
export interface ISavedRun {
  run: string;
  name: string;
  /** Whether the kernel puts what rank 0 writes and displays into the cell, beside this. */
  streamed?: boolean;
  /** Whether the cell's own error shows the failed rank's traceback. */
  raised?: boolean;
  /** Only once the run has ended. */
  saved?: {
    run: IRun;
    steps: ISteps | null;
    /** A frame of points in base64. */
    frame: string;
    /** What it measured, of a measurement. */
    survey?: ISurvey;
  };
}

/** Some buckets of one curve. */
export interface ISeriesUpdate extends Required<Omit<ISeriesHeader, 'count'>> {
  /** Iteration in the middle of each bucket. */
  x: Float64Array;
  /** iteration // width: buckets with the same index replace one another. */
  index: Int32Array;
  low: Float32Array;
  median: Float32Array;
  high: Float32Array;
  mean: Float32Array;
  /** The slowest rank's mean; NaN where it reported nothing. */
  slowest: Float32Array;
}

export interface IFrame extends Omit<IFrameHeader, 'type' | 'series'> {
  series: ISeriesUpdate[];
}

/**
 * Read a frame: the length of the header (uint32, little-endian), the header in JSON, padded so
 * that the columns begin at a multiple of 8, and the columns of each series.
 *
 * @throws RangeError when the frame is cut short.
 */
export function decodeFrame(buffer: ArrayBuffer): IFrame {
  const length = new DataView(buffer).getUint32(0, true);
  const text = new TextDecoder().decode(new Uint8Array(buffer, 4, length));
  const header: IFrameHeader = JSON.parse(text);
  let offset = 4 + length;
  const column = <T>(
    kind: { new (buffer: ArrayBuffer, offset: number, count: number): T },
    bytes: number,
    count: number
  ): T => {
    const values = new kind(buffer, offset, count);
    offset += bytes * count;
    return values;
  };
  const series = header.series.map(({ count, ...one }) => ({
    // Older saved runs have a chart for each curve.
    ...{ quantity: one.name, family: 'other' as const, is_validation: false },
    attempt: 0,
    ...one,
    x: column(Float64Array, 8, count),
    index: column(Int32Array, 4, count),
    low: column(Float32Array, 4, count),
    median: column(Float32Array, 4, count),
    high: column(Float32Array, 4, count),
    mean: column(Float32Array, 4, count),
    slowest: column(Float32Array, 4, count)
  }));
  return { ...header, series };
}
