/** What Python writes of points arrives as the same numbers. */
import { decodeFrame } from '../../protocol';
import { aFrame, buckets, encoded } from './samples';

test('a frame holds the columns of all curves', () => {
  const series = [
    buckets([0, 1, 2], { name: 'main/loss', ranks: 4 }),
    buckets([7], { name: 'validation/main/loss', reset: true, width: 8 })
  ];

  const frame = decodeFrame(encoded(aFrame(series, { version: 12 })));

  expect(frame.version).toBe(12);
  expect(frame.series.map(one => one.name)).toEqual([
    ...['main/loss', 'validation/main/loss']
  ]);
  expect([...frame.series[0].x]).toEqual([0, 1, 2]);
  expect([...frame.series[1].index]).toEqual([7]);
  expect(frame.series[1].median[0]).toBeCloseTo(0.7);
  expect(frame.series[1].reset).toBe(true);
});

test('a curve that was saved before its quantity was told has a chart of its own', () => {
  const old = { quantity: undefined, family: undefined };

  const frame = decodeFrame(encoded(aFrame([buckets([0], old)])));

  expect(frame.series[0]).toMatchObject({
    ...{ quantity: 'main/loss', family: 'other', is_validation: false }
  });
});

test('a gap stays a gap', () => {
  const median = Float32Array.of(NaN);

  const frame = decodeFrame(encoded(aFrame([buckets([3], { median })])));

  expect(frame.series[0].median[0]).toBeNaN();
});

test('a frame that is cut short is refused', () => {
  const whole = encoded(aFrame([buckets([0, 1, 2])]));

  expect(() => decodeFrame(whole.slice(0, -8))).toThrow(
    'Invalid typed array length'
  );
});
