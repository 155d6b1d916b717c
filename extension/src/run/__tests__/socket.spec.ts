/** A connection comes back after every cut, goes on where it was, and asks for no more than is seen. */
import { STORE_TROUBLE, UNKNOWN_RUN } from '../../protocol';
import { RunModel } from '../model';
import { RunSocket } from '../socket';
import { aFrame, anEndedRun, aRun, buckets, FakeSocket, show } from './samples';

let model: RunModel;
let socket: RunSocket;

beforeEach(() => {
  jest.useFakeTimers();
  jest.spyOn(Math, 'random').mockReturnValue(1);
  FakeSocket.made = [];
  show(true);
  model = new RunModel('a');
  socket = new RunSocket({
    model,
    url: (feed, version) => `ws://here/?feed=${feed}&version=${version}`,
    create: FakeSocket.create
  });
  socket.start();
});

afterEach(() => {
  socket.dispose();
  jest.useRealTimers();
  jest.restoreAllMocks();
});

const frame = (version: number, feed = 'f') =>
  aFrame([buckets([version])], { version, feed });

test('points are taken in and acknowledged', () => {
  FakeSocket.last.greet();
  FakeSocket.last.give(frame(3));

  expect(model.connection).toBe('live');
  expect(model.version).toBe(3);
  expect(FakeSocket.last.sent).toEqual([{ type: 'ack', version: 3 }]);
});

test('a hidden page acknowledges once it is seen', () => {
  FakeSocket.last.greet();
  show(false);
  FakeSocket.last.give(frame(3));
  expect(FakeSocket.last.sent).toEqual([]);

  show(true);

  expect(FakeSocket.last.sent).toEqual([{ type: 'ack', version: 3 }]);
});

test('a hidden page acknowledges all when the run has ended', () => {
  FakeSocket.last.greet();
  show(false);
  FakeSocket.last.give(frame(3));
  FakeSocket.last.say({ type: 'run', run: anEndedRun() });

  expect(FakeSocket.last.sent).toEqual([{ type: 'ack', version: 3 }]);
});

test('a cut connection goes on where it was', () => {
  FakeSocket.last.greet();
  FakeSocket.last.give(frame(3));
  FakeSocket.last.cut();
  expect(model.connection).toBe('lost');

  jest.advanceTimersByTime(250);

  expect(FakeSocket.made).toHaveLength(2);
  expect(FakeSocket.last.url).toBe('ws://here/?feed=f&version=3');
  FakeSocket.last.greet();
  expect(model.connection).toBe('live');
});

test('nothing is lost over a cut of a minute', () => {
  FakeSocket.last.greet();
  FakeSocket.last.give(aFrame([buckets([0, 1])], { version: 1 }));
  FakeSocket.last.cut();
  for (let second = 0; second < 60; second++) {
    jest.advanceTimersByTime(1000);
    if (FakeSocket.last.readyState === 0) {
      FakeSocket.last.cut();
    }
  }
  jest.advanceTimersByTime(5000);
  FakeSocket.last.greet();
  FakeSocket.last.give(aFrame([buckets([2, 3])], { version: 2 }));

  expect([...model.curves.get('main/loss')!.x]).toEqual([0, 1, 2, 3]);
  expect(FakeSocket.made.length).toBeLessThan(25);
});

test('attempts become rarer, up to one in five seconds', () => {
  const waits: number[] = [];
  for (let i = 0; i < 7; i++) {
    FakeSocket.last.cut();
    const [before, begun] = [FakeSocket.made.length, Date.now()];
    while (FakeSocket.made.length === before) {
      jest.advanceTimersByTime(50);
    }
    waits.push(Date.now() - begun);
  }

  expect(waits).toEqual([250, 500, 1000, 2000, 4000, 5000, 5000]);
});

test('a page that is online again does not wait', () => {
  FakeSocket.last.greet();
  FakeSocket.last.cut();

  window.dispatchEvent(new Event('online'));

  expect(FakeSocket.made).toHaveLength(2);
});

test('silence of half a minute counts as a cut while the run goes on', () => {
  const first = FakeSocket.last;
  first.greet();
  jest.advanceTimersByTime(29_000);
  expect(FakeSocket.made).toHaveLength(1);

  jest.advanceTimersByTime(6_000);

  expect(first.isClosed).toBe(true);
  expect(FakeSocket.made).toHaveLength(2);
});

test('a run that waits may be silent', () => {
  FakeSocket.last.greet(aRun({ state: 'queued' }));
  jest.advanceTimersByTime(120_000);

  expect(FakeSocket.made).toHaveLength(1);
});

test('a laptop that wakes up opens a dead connection anew at once', () => {
  FakeSocket.last.greet();
  jest.setSystemTime(Date.now() + 3_600_000);

  show(true);

  expect(FakeSocket.made).toHaveLength(2);
});

test('a connection that never opens is given up', () => {
  jest.advanceTimersByTime(20_000);

  expect(FakeSocket.made.length).toBeGreaterThan(1);
});

test('nobody comes back after the end', () => {
  FakeSocket.last.greet();
  FakeSocket.last.say({ type: 'end' });
  FakeSocket.last.cut(1000);
  jest.advanceTimersByTime(60_000);
  show(true);

  expect(model.connection).toBe('ended');
  expect(FakeSocket.made).toHaveLength(1);
});

test('an unknown run is not asked for again', () => {
  FakeSocket.last.cut(UNKNOWN_RUN, 'There is no such run.');
  jest.advanceTimersByTime(60_000);

  expect(model.connection).toBe('unknown');
  expect(FakeSocket.made).toHaveLength(1);
});

test('trouble of the store is told, and tried again', () => {
  FakeSocket.last.cut(STORE_TROUBLE, 'The store is locked.');
  expect([model.connection, model.problem]).toEqual([
    ...['lost', 'The store is locked.']
  ]);

  jest.advanceTimersByTime(300);

  expect(FakeSocket.made).toHaveLength(2);
});

describe('output', () => {
  const output = (after: number) => ({
    ...{ type: 'output', after, skipped: 0 },
    pieces: [[0, 'stdout', 'x\n']]
  });

  it('comes only when it is asked for, one message at a time', () => {
    FakeSocket.last.greet();
    expect(FakeSocket.last.sent).toEqual([]);

    socket.followOutput(true);
    FakeSocket.last.say(output(5));

    expect(FakeSocket.last.sent).toEqual([
      { type: 'output', after: 0 },
      { type: 'output', after: 5 }
    ]);
  });

  it('goes on after a cut', () => {
    FakeSocket.last.greet();
    socket.followOutput(true);
    FakeSocket.last.say(output(5));
    FakeSocket.last.cut();
    jest.advanceTimersByTime(250);
    FakeSocket.last.greet();

    expect(FakeSocket.last.sent).toEqual([{ type: 'output', after: 5 }]);
  });

  it('waits while the page is hidden', () => {
    FakeSocket.last.greet();
    socket.followOutput(true);
    show(false);
    FakeSocket.last.say(output(5));
    expect(FakeSocket.last.sent).toHaveLength(1);

    show(true);

    expect(FakeSocket.last.sent).toHaveLength(2);
  });

  it('comes no more when nobody wants it', () => {
    FakeSocket.last.greet();
    socket.followOutput(true);
    socket.followOutput(false);
    FakeSocket.last.say(output(5));

    expect(FakeSocket.last.sent.slice(1)).toEqual([
      { type: 'output', after: null }
    ]);
  });

  it('is fetched of a run that was over long ago', () => {
    FakeSocket.last.greet(anEndedRun());
    FakeSocket.last.say({ type: 'end' });
    FakeSocket.last.cut(1000);

    socket.followOutput(true);
    FakeSocket.last.greet(anEndedRun());

    expect(FakeSocket.made).toHaveLength(2);
    expect(FakeSocket.last.sent).toEqual([{ type: 'output', after: 0 }]);
  });

  it('comes over another connection than one that is kept after the end', () => {
    const kept = FakeSocket.last;
    kept.greet(anEndedRun());
    kept.say({ type: 'end' });
    expect(kept.isClosed).toBe(false);

    socket.followOutput(true);
    FakeSocket.last.greet(anEndedRun());

    expect([kept.isClosed, kept.sent]).toEqual([true, []]);
    expect(FakeSocket.last.sent).toEqual([{ type: 'output', after: 0 }]);
  });
});

test('nothing is left behind', () => {
  FakeSocket.last.greet();
  const last = FakeSocket.last;

  socket.dispose();
  window.dispatchEvent(new Event('online'));

  expect(last.isClosed).toBe(true);
  expect(jest.getTimerCount()).toBe(0);
  expect(FakeSocket.made).toHaveLength(1);
});
