/** A curve takes in buckets in any order, and is smoothed and thinned without losing extremes. */
import { nearest, Series, smooth, thin } from '../series';
import { buckets } from './samples';

function taken(...updates: Parameters<typeof buckets>[]): Series {
  const series = new Series('main/loss');
  updates.forEach(update => series.apply(buckets(...update)));
  return series;
}

const values = (column: ArrayLike<number>) =>
  Array.from(column, value => Number(value.toFixed(3)));

describe('Series', () => {
  it('appends new buckets', () => {
    const series = taken([[0, 1]], [[2, 5]]);

    expect([...series.x]).toEqual([0, 1, 2, 5]);
    expect(values(series.median)).toEqual([0, 0.1, 0.2, 0.5]);
  });

  it('replaces buckets that it knows', () => {
    const series = taken(
      [[0, 1, 2]],
      [[1], { median: Float32Array.of(9), x: Float64Array.of(1.5) }]
    );

    expect(values(series.median)).toEqual([0, 9, 0.2]);
    expect([...series.x]).toEqual([0, 1.5, 2]);
  });

  it('puts a late bucket where it belongs', () => {
    const series = taken([[0, 4]], [[2]], [[1]]);

    expect([...series.x]).toEqual([0, 1, 2, 4]);
    expect(values(series.high)).toEqual([0, 0.1, 0.2, 0.4]);
  });

  it('forgets what it had on reset', () => {
    const series = taken([[0, 1, 2]], [[0], { reset: true, width: 4 }]);

    expect(series.length).toBe(1);
    expect(series.width).toBe(4);
  });

  it('forgets buckets of another width', () => {
    const series = taken([[0, 1, 2]], [[0, 1], { width: 2 }]);

    expect([...series.x]).toEqual([0.5, 2.5]);
  });

  it('grows by doubling, and keeps what it has', () => {
    const many = Array.from({ length: 1000 }, (_, i) => i);
    const series = taken([many.slice(0, 300)], [many.slice(300)]);

    expect(series.length).toBe(1000);
    expect(series.x.buffer.byteLength).toBe(8 * 1024);
    expect(series.span).toEqual([0, 999]);
  });

  it.each([
    [1, 1, false],
    [4, 1, true],
    [1, 8, true]
  ])('of %d ranks and width %d has a band: %s', (ranks, width, hasBand) => {
    expect(taken([[0], { ranks, width }]).hasBand).toBe(hasBand);
  });
});

describe('nearest', () => {
  it.each([
    [-5, 0],
    [0.4, 0],
    [0.6, 1],
    [7, 2],
    [99, 3]
  ])('to %d is place %d', (wanted, place) => {
    expect(nearest([0, 1, 5, 10], wanted)).toBe(place);
  });

  it('is nowhere in an empty array', () => {
    expect(nearest([], 3)).toBe(-1);
  });
});

describe('smooth', () => {
  const x = [0, 1, 2];

  it('leaves a constant alone from its first value on', () => {
    expect(values(smooth(x, [5, 5, 5], 9))).toEqual([5, 5, 5]);
  });

  it('weighs by the distance, to both sides', () => {
    // (0.5 + 4 + 0.5 * 6) / (0.5 + 1 + 0.5), and so on
    const [first, middle, last] = smooth(x, [1, 4, 6], 1 / Math.LN2);

    expect(middle).toBeCloseTo(7.5 / 2);
    expect(first).toBeCloseTo((1 + 2 + 1.5) / 1.75);
    expect(last).toBeCloseTo((6 + 2 + 0.25) / 1.75);
  });

  it('does not lag', () => {
    const at = Array.from({ length: 401 }, (_, i) => i);

    expect(smooth(at, at, 8)[200]).toBeCloseTo(200);
  });

  it('makes no more of a curve smooth where there are more points', () => {
    const end = (count: number) => {
      const at = Array.from({ length: count }, (_, i) => (1000 * i) / count);
      return [...smooth(at, at, 10)].pop()!;
    };

    expect(Math.abs(end(100_000) - end(10_000))).toBeLessThan(0.2);
  });

  it('goes on behind a gap', () => {
    expect(values(smooth(x, [2, NaN, 2], 2))).toEqual([2, NaN, 2]);
  });

  it('does nothing with no reach', () => {
    expect(values(smooth(x, [1, 9, 4], 0))).toEqual([1, 9, 4]);
  });
});

describe('thin', () => {
  const x = Array.from({ length: 1000 }, (_, i) => i);
  const flat = x.map(() => 1);

  it('keeps every extreme', () => {
    const low = x.map(i => (i === 333 ? -7 : 0));
    const high = x.map(i => (i === 334 ? 7 : 2));

    const thinned = thin({ x, low, median: flat, high }, 100);

    expect(thinned.x.length).toBe(100);
    expect(Math.min(...Array.from(thinned.low))).toBe(-7);
    expect(Math.max(...Array.from(thinned.high))).toBe(7);
  });

  it('leaves what is thin enough as it is', () => {
    expect(Array.from(thin({ x }, 1000).x)).toEqual(x);
  });

  it('changes nothing but the end of a curve that grows', () => {
    const before = thin({ x: x.slice(0, 801) }, 200).x;
    const after = thin({ x: x.slice(0, 999) }, 200).x;

    expect(Array.from(after).slice(0, 160)).toEqual(
      Array.from(before).slice(0, 160)
    );
  });

  it('takes a part, whose buckets are those of the whole', () => {
    expect([...Array.from(thin({ x }, 2, 501, 509).x)]).toEqual([
      ...[501.5, 505.5, 508]
    ]);
  });

  it('takes no notice of gaps, unless there is nothing else', () => {
    const gappy = [NaN, 3, NaN, NaN];

    const thinned = thin({ low: gappy, median: gappy }, 2);

    expect([...Array.from(thinned.low)]).toEqual([3, NaN]);
    expect([...Array.from(thinned.median)]).toEqual([3, NaN]);
  });
});
