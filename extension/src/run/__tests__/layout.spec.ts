/** Curves with iterations of their own stand on common axes, gaps and all. */
import {
  heightOf,
  layOut,
  linesOf,
  redoneAt,
  spanOf,
  type ICurve
} from '../layout';
import { Series } from '../series';
import { buckets } from './samples';

const PLAIN = { log: false, smoothing: 0 };

function curve(
  index: number[],
  changes: Parameters<typeof buckets>[1] = {}
): ICurve {
  const series = new Series('main/loss');
  series.apply(buckets(index, changes));
  return {
    series,
    label: 'main/loss',
    description: '',
    colour: 0,
    dashed: false
  };
}

test('curves are joined on all their iterations', () => {
  const values = (...of: number[]) => ({ median: Float32Array.from(of) });
  const curves = [curve([0, 2], values(5, 6)), curve([1, 2], values(7, 8))];

  const { data, places } = layOut(curves, PLAIN);

  expect([...data[0]]).toEqual([0, 1, 2]);
  expect([...data[1]]).toEqual([5, undefined, 6]);
  expect([...data[2]]).toEqual([undefined, 7, 8]);
  expect(places.map(one => [...one])).toEqual([
    [0, 2],
    [1, 2]
  ]);
});

test('what is not finite is a gap', () => {
  const median = Float32Array.of(1, NaN, 3);

  const { data } = layOut([curve([0, 1, 2], { median })], PLAIN);

  expect([...data[1]]).toEqual([1, null, 3]);
});

test('what a logarithmic scale cannot show is a gap', () => {
  const median = Float32Array.of(1, 0, -3);

  const { data } = layOut([curve([0, 1, 2], { median })], {
    ...PLAIN,
    log: true
  });

  expect([...data[1]]).toEqual([1, null, null]);
});

test('a long curve is thinned before it is drawn', () => {
  const index = Array.from({ length: 10_000 }, (_, i) => i);

  const { data } = layOut([curve(index)], PLAIN);

  expect(data[0].length).toBeLessThanOrEqual(4000);
});

test('a band has no more buckets than can be seen', () => {
  const index = Array.from({ length: 2000 }, (_, i) => i);
  const band = curve(index, { ranks: 4 });

  const { data, drawn } = layOut([band], PLAIN, [0, 1999], 600);

  expect(data[0].length).toBe(400);
  expect(drawn[0].high[399]).toBeCloseTo(199.9);
});

test('only what is in sight is laid out', () => {
  const index = Array.from({ length: 100 }, (_, i) => i);

  const { data } = layOut([curve(index)], PLAIN, [40, 42]);

  expect([...data[0]]).toEqual([39, 40, 41, 42, 43]);
});

describe('the lines', () => {
  const many = Array.from({ length: 50 }, (_, i) => i);
  const kinds = (curves: ICurve[], smoothing = 0) =>
    linesOf(curves, { log: false, smoothing }).map(line => line.kind);

  it('have the slowest rank below the others', () => {
    expect(kinds([curve([0], { ranks: 4 })])).toEqual(['slowest', 'line']);
  });

  it('have no slowest rank where there is one', () => {
    expect(kinds([curve([0])])).toEqual(['line']);
  });

  it('have the raw curve below the smoothed one', () => {
    expect(kinds([curve(many)], 0.6)).toEqual(['raw', 'line']);
  });

  it('are not smoothed of a few points', () => {
    expect(kinds([curve([0, 1, 2])], 0.6)).toEqual(['line']);
  });
});

describe('the height', () => {
  const series = curve([0, 1, 2], {
    ranks: 2,
    low: Float32Array.of(-1, 2, NaN),
    median: Float32Array.of(0, 3, NaN),
    high: Float32Array.of(1, 9, NaN)
  });
  const height = (range: [number, number], log = false) =>
    heightOf([series], layOut([series], { ...PLAIN, log }), range, log);

  it('takes in the band', () => {
    expect(height([0, 2])).toEqual([-1, 9]);
  });

  it('is that of what is shown', () => {
    expect(height([0, 0])).toEqual([-1, 1]);
  });

  it('leaves out what a logarithmic scale cannot show', () => {
    expect(height([0, 2], true)).toEqual([1, 9]);
  });

  it('is unknown where nothing is finite', () => {
    expect(height([2, 2])).toBeNull();
  });
});

test('the span is that of all curves', () => {
  expect(spanOf([curve([3, 4]), curve([1])])).toEqual([1, 4]);
  expect(spanOf([])).toBeNull();
});

describe('what a later attempt did again', () => {
  const stretch = curve([2, 3, 4], {
    median: Float32Array.of(9, 8, 7),
    attempt: 1
  }).series;
  const again: ICurve = {
    ...curve([0, 1, 2, 3]),
    redone: [{ series: stretch, text: 'attempt 1, redone' }]
  };

  test('is a line of its own, below all others', () => {
    const { lines, data } = layOut([again], PLAIN);

    expect(lines.map(({ kind }) => kind)).toEqual(['redone', 'line']);
    expect([...data[0]]).toEqual([0, 1, 2, 3, 4]);
    expect([...data[1]]).toEqual([undefined, undefined, 9, 8, 7]);
  });

  test('is in sight as a whole', () => {
    expect(spanOf([again])).toEqual([0, 4]);
    expect(heightOf([again], layOut([again], PLAIN), [0, 4], false)).toEqual([
      0, 9
    ]);
  });

  test('is named where it is pointed at, and nowhere else', () => {
    expect(redoneAt([again], 3)).toEqual([
      { text: 'attempt 1, redone', values: [8] }
    ]);
    expect(redoneAt([again], 1)).toEqual([]);
    expect(redoneAt([curve([0, 1])], 1)).toEqual([]);
  });
});
