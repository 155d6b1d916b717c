import { comparisons } from '../comparecharts';
import { RunModel } from '../run/model';
import type { ISeriesUpdate } from '../protocol';
import { aRun } from './samples';

/** Two buckets of a curve on four ranks. */
function aCurve(name: string): ISeriesUpdate {
  const isLoss = name.includes('loss');
  const values = Float32Array.of(1, 2);
  return {
    ...{ name, quantity: isLoss ? 'loss' : name },
    ...{ family: isLoss ? 'loss' : 'share' },
    is_validation: name.startsWith('val_'),
    attempt: 0,
    ...{ reset: true, width: 1, ranks: 4 },
    x: Float64Array.of(1, 2),
    index: Int32Array.of(1, 2),
    ...{ low: values, median: values, high: values },
    ...{ mean: values, slowest: values }
  };
}

function aModel(name: string, names: string[]): RunModel {
  const model = new RunModel(name);
  const run = aRun({ id: name, name });
  model.applyMessage({ type: 'run', run });
  const series = names.map(aCurve);
  model.applyFrame({ feed: name, version: 1, points: 2, slowest: -1, series });
  return model;
}

it('draws a chart for each quantity, a colour for each run, validation dashed', () => {
  const models = [
    aModel('a', ['train_loss', 'val_loss', 'accuracy']),
    aModel('b', ['train_loss'])
  ];
  const drawn = comparisons(models).map(({ quantity, curves }) => [
    quantity,
    ...curves.map(one => `${one.label} ${one.colour} ${one.dashed}`)
  ]);

  expect(drawn).toEqual([
    [
      'loss',
      'a train_loss 0 false',
      'a val_loss 0 true',
      'b train_loss 1 false'
    ],
    ['accuracy', 'a 0 false']
  ]);
});

it('compares runs and not their ranks', () => {
  const [{ curves }] = comparisons([aModel('a', ['loss'])]);

  expect(curves[0].series.hasBand).toBe(false);
  expect(curves[0].series.ranks).toBe(1);
  expect([...curves[0].series.median]).toEqual([1, 2]);
});

it('draws nothing of a run that reported nothing', () => {
  expect(comparisons([aModel('a', [])])).toEqual([]);
});
