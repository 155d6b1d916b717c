/** Drawing happens a few times a second, in sight, and on a page that is seen. */
import { Pacer } from '../pacer';
import { show } from './samples';

let intersect: (isIntersecting: boolean) => void;
const disconnect = jest.fn();
const draw = jest.fn();
let pacer: Pacer;

beforeEach(() => {
  jest.useFakeTimers();
  jest.clearAllMocks();
  show(true);
  class Observer {
    constructor(told: (entries: { isIntersecting: boolean }[]) => void) {
      intersect = isIntersecting => told([{ isIntersecting }]);
    }
    observe = jest.fn();
    disconnect = disconnect;
  }
  Object.assign(globalThis, { IntersectionObserver: Observer });
  pacer = new Pacer(document.body, draw);
});

afterEach(() => {
  pacer.dispose();
  jest.useRealTimers();
});

test('many requests are one drawing', () => {
  intersect(true);
  for (let i = 0; i < 50; i++) {
    pacer.request();
  }
  jest.advanceTimersByTime(50);

  expect(draw).toHaveBeenCalledTimes(1);
});

test('there are ten drawings a second, though each waits for a frame', () => {
  intersect(true);
  for (let i = 0; i < 1000; i++) {
    pacer.request();
    jest.advanceTimersByTime(5);
  }

  expect(draw.mock.calls.length).toBeGreaterThanOrEqual(49);
  expect(draw.mock.calls.length).toBeLessThanOrEqual(51);
});

test('what comes a little late does not make the next one late as well', () => {
  intersect(true);
  for (let i = 0; i < 50; i++) {
    jest.advanceTimersByTime(i % 2 ? 60 : 140);
    pacer.request();
  }
  jest.advanceTimersByTime(100);

  expect(draw).toHaveBeenCalledTimes(50);
});

test('what was missed is not made up for', () => {
  intersect(true);
  pacer.request();
  jest.advanceTimersByTime(1000);
  draw.mockClear();
  for (let i = 0; i < 20; i++) {
    pacer.request();
    jest.advanceTimersByTime(5);
  }

  expect(draw.mock.calls.length).toBeLessThanOrEqual(2);
});

test('what is out of sight is drawn once it comes into sight', () => {
  pacer.request();
  jest.advanceTimersByTime(1000);
  expect(draw).not.toHaveBeenCalled();

  intersect(true);
  jest.advanceTimersByTime(50);

  expect(draw).toHaveBeenCalledTimes(1);
});

test('a hidden page draws nothing', () => {
  intersect(true);
  show(false);
  pacer.request();
  jest.advanceTimersByTime(1000);
  expect(draw).not.toHaveBeenCalled();

  show(true);
  jest.advanceTimersByTime(50);

  expect(draw).toHaveBeenCalledTimes(1);
});

test('nothing is left behind', () => {
  intersect(true);
  pacer.request();

  pacer.dispose();
  jest.advanceTimersByTime(1000);

  expect(draw).not.toHaveBeenCalled();
  expect(disconnect).toHaveBeenCalled();
  expect(jest.getTimerCount()).toBe(0);
});
