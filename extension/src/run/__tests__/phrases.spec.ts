/** A run's state, its curves and its connection in words. */
import cases from '../../../../tests/view/runs.json';
import type { IPhrase } from '../../protocol';
import { fixed, integer, number, percent, tick } from '../numbers';
import {
  connectionRemark,
  describe as words,
  nonfiniteRemark,
  said,
  stateLine,
  stateWord
} from '../phrases';
import { Series } from '../series';
import { ENGLISH } from '../trans';
import { anEndedRun, aRun, buckets } from './samples';

beforeAll(() => {
  document.documentElement.lang = 'en';
});

describe('a run', () => {
  it.each(cases)('is said as in the terminal: $what', one => {
    const run = aRun(one.sent as object);

    expect(stateWord(run, ENGLISH)).toBe(one.word);
    expect(stateLine(run, ENGLISH)).toBe(one.line);
  });

  it('that an older version saved is said in its sentences', () => {
    const run = anEndedRun({
      ...{ word: undefined, line: undefined },
      message: 'It failed.'
    });

    expect(stateWord(run, ENGLISH)).toBe('finished');
    expect(stateLine(run, ENGLISH)).toBe('It failed.');
  });
});

test('a text has its arguments in the language of the page', () => {
  document.documentElement.lang = 'de';
  const inner = { text: '%1 left', args: [['duration', 3600]] };
  const phrase = { text: '%1: %2, %3', args: [null, ['count', 1e4], inner] };

  expect(said(phrase as IPhrase, ENGLISH, 'loss')).toBe(
    'loss: 10.000, 1 h left'
  );
  document.documentElement.lang = 'en';
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
