/** A run's state, its curves and its connection in words. */
import cases from '../../../../tests/view/runs.json';
import type { IPhrase } from '../../protocol';
import { fixed, integer, number, percent, tick } from '../numbers';
import {
  connectionRemark,
  describe as describeCurve,
  marksOf,
  nonfiniteRemarks,
  said,
  stateLine,
  stateWord
} from '../phrases';
import { RunModel } from '../model';
import { ENGLISH } from '../trans';
import { anEndedRun, aRun } from './samples';

beforeAll(() => {
  document.documentElement.lang = 'en';
});

describe('a run', () => {
  it.each(cases)('is said as in the terminal: $what', one => {
    const run = aRun(one.sent as object);

    expect(stateWord(run, ENGLISH)).toBe(one.word);
    expect(stateLine(run, ENGLISH)).toBe(one.line);
  });

  it.each(cases)('has its curves described: $what', one => {
    const model = new RunModel('id');
    model.applyMessage({ type: 'run', run: aRun(one.sent as object) });

    const described = (model.run?.curves ?? []).map(({ name }) =>
      describeCurve(model, name, name, ENGLISH)
    );
    expect(described.join('; ')).toBe(one.description);
    expect(nonfiniteRemarks(model.run!, ENGLISH)).toBe(one.remark);
    const marks = marksOf(model, ENGLISH);
    expect(marks.map(mark => `${mark.iteration}: ${mark.text}`)).toEqual(
      one.marks
    );
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
