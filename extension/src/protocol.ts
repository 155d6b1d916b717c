/**
 * What the server and a page say to each other: the JSON values, and the binary frames of points.
 *
 * The same frames travel over the WebSocket, in an anywidget's messages, and inside a saved
 * notebook. `workbench/pages/frames.py` writes them.
 */

import type { IFrameHeader, ISeriesHeader } from './messages';

export * from './messages';

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
