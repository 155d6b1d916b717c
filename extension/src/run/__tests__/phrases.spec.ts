/** A run's state, its curves and its connection in words. */
import { fixed, integer, number, percent, tick } from '../numbers';
import {
  connectionRemark,
  describe as describeCurve,
  nonfiniteRemarks,
  stateLine,
  stateWord
} from '../phrases';
import { RunModel } from '../model';
import { anEndedRun, aRun } from './samples';

describe('a run', () => {
  it('is said in its own words', () => {
    const run = aRun({ word: 'running', line: ['iteration 1', '2 ranks'] });

    expect(stateWord(run)).toBe('running');
    expect(stateLine(run)).toBe('iteration 1 · 2 ranks');
  });

  it('has its curves described by name', () => {
    const curve = { name: 'loss', description: 'rises', remark: 'is odd' };
    const model = new RunModel('id');
    model.applyMessage({ type: 'run', run: aRun({ curves: [curve] }) });

    expect(describeCurve(model, 'loss', 'a: loss')).toBe('a: loss rises');
    expect(describeCurve(model, 'other', 'other')).toBe('');
    expect(nonfiniteRemarks(model.run!)).toBe('loss is odd');
  });

  it('that an older version saved is said in its sentences', () => {
    const run = anEndedRun({
      ...{ word: undefined, line: undefined },
      message: 'It failed.'
    });

    expect(stateWord(run)).toBe('finished');
    expect(stateLine(run)).toBe('It failed.');
  });
});

test('an unknown run is told of in the agreed words', () => {
  expect(connectionRemark('unknown', '')).toBe(
    "This run is not in this machine's store; the picture below was saved with the notebook."
  );
});

test('trouble of the store is told with the connection', () => {
  expect(connectionRemark('lost', 'The store is newer.')).toBe(
    'The store is newer. Trying again…'
  );
  expect(connectionRemark('live', '')).toBe('');
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
});
