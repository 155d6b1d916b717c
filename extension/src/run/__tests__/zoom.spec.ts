/** What is zoomed in to is fetched in finer buckets, once and no more often than needed. */
import type { IFrame } from '../../protocol';
import { Series } from '../series';
import { Zoom } from '../zoom';
import { aFrame, buckets } from './samples';

let asked: [number, number][];
let answer: (frame: IFrame | null) => void;
let zoom: Zoom;
const coarse = new Series('main/loss');

beforeEach(() => {
  jest.useFakeTimers();
  asked = [];
  coarse.apply(buckets([0, 1, 2, 3], { width: 100 }));
  zoom = new Zoom((first, last) => {
    asked.push([first, last]);
    return new Promise(resolve => (answer = resolve));
  });
});

afterEach(() => {
  zoom.dispose();
  jest.useRealTimers();
});

async function arrive(index: number[], width = 10): Promise<void> {
  answer(aFrame([buckets(index, { width })]));
  await Promise.resolve();
  await Promise.resolve();
}

async function zoomed(first: number, last: number): Promise<void> {
  zoom.set([first, last]);
  await jest.advanceTimersByTimeAsync(200);
}

test('a range is asked for with some room, once somebody has settled on it', async () => {
  zoom.set([0, 300]);
  await jest.advanceTimersByTimeAsync(100);
  await zoomed(100, 200);

  expect(asked).toEqual([[95, 205]]);
});

test('finer buckets take the place of the coarse ones', async () => {
  await zoomed(100, 200);
  expect(zoom.refined(coarse)).toBe(coarse);

  await arrive([10, 11, 12]);

  expect(zoom.refined(coarse).width).toBe(10);
  zoom.set(null);
  expect(zoom.refined(coarse)).toBe(coarse);
});

test('an answer that comes after the next zoom is dropped', async () => {
  await zoomed(100, 200);
  const late = answer;
  await zoomed(250, 300);
  late(aFrame([buckets([10], { width: 10 })]));
  await jest.advanceTimersByTimeAsync(0);

  expect(zoom.refined(coarse)).toBe(coarse);
});

test('nothing finer is asked for than single iterations', async () => {
  await zoomed(100, 200);
  await arrive([100, 150, 200], 1);
  await zoomed(120, 180);

  expect(asked).toHaveLength(1);
});

test('the end of a live curve is fetched again after a while', async () => {
  await zoomed(100, 400);
  await arrive([10, 30]);
  zoom.grow(350);
  expect(asked).toHaveLength(1);

  await jest.advanceTimersByTimeAsync(3001);
  zoom.grow(360);

  expect(asked).toHaveLength(2);
});

test('the middle of a live curve is not fetched again', async () => {
  await zoomed(100, 200);
  await arrive([10, 20]);
  await jest.advanceTimersByTimeAsync(60_000);
  zoom.grow(900);

  expect(asked).toHaveLength(1);
});

test('zooming in and out keeps the cursor where it is', () => {
  zoom.point(100);
  zoom.scale(0.5, [0, 400]);
  expect(zoom.range).toEqual([50, 250]);

  zoom.scale(2, [0, 400]);

  expect(zoom.range).toBeNull();
});

test('there is an end to zooming in', () => {
  zoom.set([100, 100.5]);

  expect(zoom.range![1] - zoom.range![0]).toBe(4);
});

test('charts hear of the cursor only when it moves', () => {
  const told: string[] = [];
  zoom.changed.connect((_, change) => told.push(change));
  zoom.point(5);
  zoom.point(5);
  zoom.point(null);

  expect(told).toEqual(['cursor', 'cursor']);
});
