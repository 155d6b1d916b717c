/** A run's state, its curves and its connection in words. */
import type { IRun } from '../../protocol';
import { fixed, integer, number, percent, tick } from '../numbers';
import {
  connectionRemark,
  describe as words,
  nonfiniteRemark,
  stateLine,
  stateWord
} from '../phrases';
import { Series } from '../series';
import { ENGLISH } from '../trans';
import { anEndedRun, aRun, buckets } from './samples';

beforeAll(() => {
  document.documentElement.lang = 'en';
});

describe('stateLine', () => {
  const stopped = { state: 'stopped', iteration: 1234 } as const;
  const failed = { state: 'failed', failed_rank: 2 } as const;

  it.each<[string, IRun]>([
    [
      'iteration 420 of 1,000 · 4 ranks · 12.3 it/s · 41 s left',
      aRun({ iteration: 420 })
    ],
    [
      'iteration 420 · 1 rank',
      aRun({ iterations_total: 0, ranks: 1, rate: 0, seconds_left: null })
    ],
    [
      'epoch 2.1 of 5 · 4 ranks · 12.3 it/s · 41 s left',
      aRun({ iteration: 0, iterations_total: 0, epoch: 2.1, epochs_total: 5 })
    ],
    [
      'Waits for the cluster to be ready',
      aRun({
        ...{ state: 'queued', iteration: 0, iterations_total: 0, ranks: 0 },
        waiting: 'Waits for the cluster to be ready.'
      })
    ],
    ['iteration 1,000 of 1,000 · 4 ranks · took 1 min 23 s', anEndedRun()],
    [
      'stopped at iteration 1,234 · 4 ranks · took 1 min 23 s · Ranks are new',
      anEndedRun({
        ...{ ...stopped, stopped_at: 1234, remark: 'Ranks are new.' },
        message: 'Stopped at iteration 1234. Ranks are new.'
      })
    ],
    [
      'iteration 1,234 of 1,000 · 4 ranks · took 1 min 23 s · Stopped at iteration 1234. Ranks are new',
      anEndedRun({
        ...stopped,
        message: 'Stopped at iteration 1234. Ranks are new.' // kept long ago
      })
    ],
    [
      'stopped before it started',
      anEndedRun({
        ...{ state: 'stopped', ranks: 0, started: 0, iteration: 0 },
        message: 'Stopped before it began.'
      })
    ],
    [
      'step 3 of 12 · 4 ranks',
      aRun({
        ...{ kind: 'measurement', iteration: 3, iterations_total: 12 },
        ...{ rate: 0, seconds_left: null }
      })
    ],
    [
      'failed on rank 2 (node-1) · 4 ranks · took 1 min 23 s',
      anEndedRun({ ...failed, failed_host: 'node-1' })
    ],
    ['failed on rank 2 · 4 ranks · took 1 min 23 s', anEndedRun(failed)],
    [
      'failed on rank 2 (node-1) · 4 ranks · took 1 min 23 s · ValueError: no. Ranks are new',
      anEndedRun({
        ...{ ...failed, failed_host: 'node-1' },
        ...{ failure: 'ValueError: no', remark: 'Ranks are new.' },
        message: 'Rank 2 on node-1 failed: ValueError: no. Ranks are new.'
      })
    ],
    [
      'failed on rank 2 (node-1) · 4 ranks · took 1 min 23 s · Rank 2 on node-1 failed: ValueError: no',
      anEndedRun({
        ...{ ...failed, failed_host: 'node-1' },
        message: 'Rank 2 on node-1 failed: ValueError: no.' // kept long ago
      })
    ],
    [
      'failed on rank 2 · 4 ranks · took 1 min 23 s · No rank is left',
      anEndedRun({ ...failed, message: 'No rank is left.' })
    ],
    [
      'failed on rank 0 (node-0) · 4 ranks · took 1 min 23 s · GradientError: The gradient of /l1/W on rank 2 is not finite, so nobody updated',
      anEndedRun({
        ...{ state: 'failed', failed_rank: 0, failed_host: 'node-0' },
        failure:
          'GradientError: The gradient of /l1/W on rank 2 is not finite, so nobody updated',
        message: 'Rank 0 on node-0 failed: GradientError: …'
      })
    ]
  ])('is %j', (line, run) => {
    expect(stateLine(run, ENGLISH)).toBe(line);
  });

  it('says nothing of the time that is left once the run is to stop', () => {
    const line = stateLine(aRun({ is_stopping: true }), ENGLISH);

    expect(line).toBe('iteration 420 of 1,000 · 4 ranks');
  });
});

test('a run that is asked to stop is stopping', () => {
  expect(stateWord(aRun({ is_stopping: true }), ENGLISH)).toBe('stopping…');
});

test('an unknown run is told of in the agreed words', () => {
  expect(connectionRemark('unknown', '', ENGLISH)).toBe(
    "This run is not in this machine's store; the picture below was saved with the notebook."
  );
});

test('trouble of the store is told with the connection', () => {
  expect(connectionRemark('lost', 'The store is newer.', ENGLISH)).toBe(
    'The store is newer. Trying again…'
  );
  expect(connectionRemark('live', '', ENGLISH)).toBe('');
});

describe('nonfiniteRemark', () => {
  const series = (last: number) => {
    const made = new Series('main/loss');
    const median = Float32Array.of(1, last);
    made.apply(
      buckets([420, 421], { median, nonfinite: 37, nonfinite_first: 421 })
    );
    return made;
  };

  it('tells since when a loss is not finite', () => {
    expect(nonfiniteRemark(series(NaN), ENGLISH)).toBe(
      'main/loss has not been finite since iteration 421 (37 values)'
    );
  });

  it('tells that it has recovered', () => {
    expect(nonfiniteRemark(series(2), ENGLISH)).toBe(
      'main/loss was not finite at times, first at iteration 421 (37 values)'
    );
  });
});

describe('what a curve shows', () => {
  it.each([
    ['falls from 2 to 0.5 over 2 iterations', [2, 1, 0.5]],
    ['rises from 1 to 2 over 1 iteration', [NaN, 1, 2]],
    ['stays at 3 over 2 iterations', [3, 1, 3]],
    ['is 4 at iteration 2', [NaN, NaN, 4]],
    ['has no finite value', [NaN, NaN, NaN]]
  ])('is said: %s', (said, values) => {
    const series = new Series('loss');
    series.apply(buckets([0, 1, 2], { median: Float32Array.from(values) }));

    expect(words('loss', series, ENGLISH)).toBe(`loss ${said}`);
  });
});

describe('numbers', () => {
  it('are written for people', () => {
    expect(integer(1234567)).toBe('1,234,567');
    expect(number(0.0866512)).toBe('0.08665');
    expect(number(1.23456e-7)).toBe('1.235e-7');
    expect(number(NaN)).toBe('nan');
    expect(percent(0.29)).toBe('29 %');
    expect(percent(0.9999)).toBe('99 %');
    expect(fixed(3.1, 2)).toBe('3.10');
  });

  it.each([
    [0.3, 0.1, '0.3'],
    [0.975, 0.025, '0.975'],
    [2.50015, 0.00005, '2.50015'],
    [20_000, 5_000, '20K'],
    [1_000_123, 10, '1,000,123'],
    [0, 0.5, '0']
  ])('tell ticks apart: %d in steps of %d is %s', (value, step, shown) => {
    expect(tick(value, step)).toBe(shown);
  });

  it('follow the language of the page', () => {
    document.documentElement.lang = 'de_DE';

    expect(integer(1000)).toBe('1.000');
    document.documentElement.lang = 'en';
  });
});
