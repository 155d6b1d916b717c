/** Curves are placed on the time since their run started. */
import { Clock, clockOf, inTime } from '../clock';
import { RunModel } from '../model';
import { clockTime } from '../numbers';
import { Series } from '../series';
import { aRun, buckets } from './samples';

const CLOCK = new Clock([
  [1, 10],
  [11, 20],
  [21, 60]
]);

test('iterations between two that are known take the same time each', () => {
  expect([1, 6, 11, 16].map(at => CLOCK.at(at))).toEqual([10, 15, 20, 40]);
});

test('before the first and after the last known one they go on alike', () => {
  expect([0, 26].map(at => CLOCK.at(at))).toEqual([9, 80]);
  expect(new Clock([...[[10, 1] as const, [11, 9] as const]]).at(0)).toBe(0);
});

test('a curve in time follows the series that grows', () => {
  const series = new Series('main/loss');
  series.apply(buckets([1, 11]));
  const timed = inTime(series, CLOCK);
  expect([...timed.x]).toEqual([10, 20]);
  expect(timed.nearest(19)).toBe(1);

  series.apply(buckets([21]));

  expect([...timed.x]).toEqual([10, 20, 60]);
  expect(timed.span).toEqual([10, 60]);
  expect(series.span).toEqual([1, 21]);
});

test('without two known iterations there is no clock', () => {
  const model = new RunModel('a');
  model.applyMessage({ type: 'run', run: aRun({ clock: [[1, 2]] }) });
  expect(clockOf(model)).toBeNull();
});

test('seconds are shown as on a clock', () => {
  expect([0, 65, 7200].map(clockTime)).toEqual(['0:00', '1:05', '2:00:00']);
});
