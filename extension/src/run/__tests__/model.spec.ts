/** A model holds a run, wherever it came from. */
import { RunModel, type Aspect } from '../model';
import { aFrame, anEndedRun, aRun, buckets, kept } from './samples';

function followed(): { model: RunModel; told: Aspect[] } {
  const model = new RunModel('a');
  const told: Aspect[] = [];
  model.changed.connect((_, aspect) => told.push(aspect));
  return { model, told };
}

test('points gather in curves', () => {
  const { model, told } = followed();
  model.applyFrame(aFrame([buckets([0, 1])]));
  model.applyFrame(aFrame([buckets([2])], { version: 2, slowest: 3 }));

  expect(model.curves.get('main/loss')!.length).toBe(3);
  expect([model.version, model.slowest]).toEqual([2, 3]);
  expect(told).toEqual(['curves', 'curves']);
});

test('points of another feed replace all that was there', () => {
  const { model } = followed();
  model.applyFrame(aFrame([buckets([0, 1]), buckets([0], { name: 'lr' })]));
  model.applyFrame(aFrame([buckets([0])], { feed: 'other' }));

  expect([...model.curves.keys()]).toEqual(['main/loss']);
  expect(model.curves.get('main/loss')!.length).toBe(1);
});

test('what a later attempt did again is kept beside its curve', () => {
  const { model } = followed();
  const stretch = (attempt: number) => buckets([1, 2], { attempt });
  model.applyFrame(aFrame([buckets([0]), stretch(1), stretch(2)]));

  expect(model.curves.get('main/loss')!.length).toBe(1);
  expect(model.redone('main/loss').map(one => one.attempt)).toEqual([1, 2]);
  expect(model.redone('lr')).toEqual([]);

  model.applyFrame(aFrame([buckets([0])], { feed: 'other' }));
  expect(model.redone('main/loss')).toEqual([]);
});

test('an answer that was overtaken is dropped', () => {
  const { model } = followed();
  model.applyMessage({ type: 'run', run: aRun({ now: 20, iteration: 9 }) });
  model.applyMessage({ type: 'run', run: aRun({ now: 19, iteration: 8 }) });

  expect(model.run!.iteration).toBe(9);
});

test('a clock that was set back does not stop the run', () => {
  const { model } = followed();
  model.applyMessage({ type: 'run', run: aRun({ now: 5000, iteration: 8 }) });
  model.applyMessage({ type: 'run', run: aRun({ now: 1000, iteration: 9 }) });

  expect(model.run!.iteration).toBe(9);
});

test('output is counted on, and what was skipped is known', () => {
  const { model } = followed();
  model.applyMessage({
    ...{ type: 'output', after: 17, skipped: 3 },
    pieces: [[1, 'stdout', 'hello\n']]
  });

  expect(model.output.after).toBe(17);
  expect(model.output.isCut).toBe(true);
  expect(model.output.lines.map(line => line.text)).toEqual(['hello']);
});

test('what was saved with a notebook is there again', () => {
  const { model } = followed();
  model.load({
    run: anEndedRun(),
    steps: { type: 'steps', slowest: 1, ranks: [[1, 1, 1, 1, 1]] },
    frame: kept(aFrame([buckets([0, 1, 2])], { feed: '', version: 0 }))
  });

  expect(model.connection).toBe('saved');
  expect(model.run!.state).toBe('finished');
  expect(model.curves.get('main/loss')!.length).toBe(3);
  expect(model.steps!.slowest).toBe(1);
});

test('what cannot be read changes nothing', () => {
  const { model, told } = followed();
  const frame = kept(aFrame([buckets([0])])).slice(0, -12);

  expect(() => model.load({ run: aRun(), steps: null, frame })).toThrow();
  expect(told).toEqual([]);
});

test('no rank is the slowest while curves and parts of a step do not agree', () => {
  const model = new RunModel('r');
  model.applyFrame(aFrame([buckets([2])], { slowest: 0 }));

  model.setSteps({ type: 'steps', slowest: 1, ranks: [] });
  const before = model.slowest;
  model.applyFrame(aFrame([buckets([2])], { slowest: 1 }));

  expect([before, model.slowest]).toEqual([-1, 1]);
});
