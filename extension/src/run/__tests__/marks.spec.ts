/** Marks have their texts where there is room, and lines anyway. */
import { place } from '../marks';

const GAP = 4;

/** Place marks at pixels, with texts of one pixel a letter, in a picture of 100 pixels. */
const placed = (...marks: [number, string][]) =>
  place(
    marks.map(([iteration, text]) => ({ iteration, text })),
    iteration => iteration,
    text => text.length,
    [0, 100],
    GAP
  );

it('has its text at the right', () => {
  expect(placed([20, 'moved'])).toEqual([
    { x: 20, text: 'moved', start: 24, isPending: false }
  ]);
});

it('has it away from the texts and lines beside it', () => {
  const touching = placed([50, 'moved'], [100 - GAP, 'x'.repeat(47 - 2 * GAP)]);
  const apart = placed([50, 'moved'], [100 - GAP, 'x'.repeat(46 - 2 * GAP)]);

  expect(touching.map(one => Boolean(one.isBelow))).toEqual([false, true]);
  expect(apart.map(one => Boolean(one.isBelow))).toEqual([false, false]);
  expect(apart[1].start - apart[0].x).toBeGreaterThanOrEqual(GAP);
  expect(apart[0].x - (apart[0].start + 5)).toBe(GAP);
});

it('has it at the left where the picture ends', () => {
  expect(placed([95, 'resumed'])).toEqual([
    { x: 95, text: 'resumed', start: 95 - GAP - 7, isPending: false }
  ]);
});

it('has no text over the next mark or its text', () => {
  expect(placed([20, 'rank lost'], [30, 'moved'], [95, 'resumed'])).toEqual([
    { x: 20, text: 'rank lost', start: 7, isPending: false },
    { x: 30, text: 'moved', start: 34, isPending: false },
    { x: 95, text: 'resumed', start: 84, isPending: false }
  ]);
});

it('gives way to a later one at the same iteration', () => {
  expect(placed([50, 'first'], [50, 'second']).map(one => one.text)).toEqual([
    'first',
    'second'
  ]);
  expect(placed([2, 'first'], [2, 'second']).map(one => one.text)).toEqual([
    '',
    'second'
  ]);
});

it('is left out where it is out of sight', () => {
  expect(placed([-1, 'moved'], [101, 'moved'])).toEqual([]);
});

it('is drawn at the edge where it is pending beyond it', () => {
  const mark = { iteration: 240, text: 'to 4 ranks', isPending: true };
  const across = (iteration: number) => iteration;
  const width = (text: string) => text.length;

  const [late] = place([mark], across, width, [0, 100], GAP);
  const [near] = place([mark], across, width, [0, 300], GAP);

  expect(late).toEqual({
    x: 100,
    text: 'to 4 ranks',
    start: 100 - GAP - 10,
    isPending: true
  });
  expect(near.x).toBe(240);
});
