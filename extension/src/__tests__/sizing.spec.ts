import {
  numberOf,
  resting,
  sensible,
  size,
  sizeOf,
  suggested
} from '../sizing';
import { aCluster, aDownCluster, aFleet, aRun } from './samples';

const BOUNDS = { slots: 4, max_ranks: 64 };

describe('sensible', () => {
  const can = (
    changes: Parameters<typeof aCluster>[0],
    ranks: number | null = 3
  ) => sensible(aCluster(changes), ranks);

  it('lets a ready cluster be resized and deleted, but not started', () => {
    expect(can({})).toEqual({
      start: false,
      resize: true,
      stop: false,
      remove: true,
      extend: false
    });
  });

  it('does not resize to the number that was asked for already', () => {
    expect(can({}, 2).resize).toBe(false);
  });

  it('does not resize what is starting, stopping or failed', () => {
    for (const state of ['starting', 'stopping', 'failed'] as const) {
      expect(can({ state }).resize).toBe(false);
    }
  });

  it('resizes again while a change of size goes on', () => {
    expect(can({ state: 'resizing' }).resize).toBe(true);
  });

  it('starts what nobody wants up, what is down and what failed', () => {
    expect(sensible(aDownCluster(), 2).start).toBe(true);
    expect(can({ state: 'down' }).start).toBe(true);
    expect(can({ state: 'failed' }).start).toBe(true);
    expect(can({ state: 'stopping', is_wanted: false }).start).toBe(true);
  });

  it('deletes what is wanted or still there, unless it stops already', () => {
    expect(sensible(aDownCluster(), 2).remove).toBe(false);
    expect(can({ state: 'failed', is_wanted: false }).remove).toBe(true);
    expect(can({ state: 'stopping', is_wanted: false }).remove).toBe(false);
  });

  it('stops training only where a run goes on that nobody has stopped', () => {
    expect(can({ runs: [aRun()] }).stop).toBe(true);
    expect(can({ runs: [aRun({ is_stopping: true })] }).stop).toBe(false);
  });

  it('sizes nodes where there are some, also while it waits for capacity', () => {
    const starting = aFleet({ state: 'starting' });

    expect(sensible(starting, 1).resize).toBe(true);
    expect(sensible(starting, 2).resize).toBe(false);
    expect(sensible(aFleet({ state: 'paused' }), 0).resize).toBe(true);
    expect(sensible(starting, 0).extend).toBe(true);
  });

  it('neither starts nor resizes with a number that will not do', () => {
    expect(can({}, null).resize).toBe(false);
    expect(sensible(aDownCluster(), null).start).toBe(false);
  });
});

describe('the number of nodes', () => {
  const asks = (text: string) =>
    sizeOf(aFleet(), { text, oversubscribe: false }, BOUNDS);

  it('may be 0, which pays nothing', () => {
    expect(asks('0')).toEqual({ nodes: 0 });
    expect(numberOf(asks('0'))).toBe(0);
    expect(asks('12')).toEqual({ nodes: 12 });
  });

  it('is whole, and no more than can be looked after', () => {
    for (const text of ['', '-1', '1.5', 'two', '513']) {
      expect(asks(text)).toBeNull();
    }
  });

  it('rests on what was asked for last, also once nobody wants the cluster', () => {
    const down = aFleet({ is_wanted: false, state: 'down', nodes_asked: 0 });

    expect(resting(down, BOUNDS).text).toBe('2');
  });
});

describe('the number box', () => {
  it('rests on what was asked for, also once the cluster is gone', () => {
    for (const cluster of [
      aCluster({ ranks_asked: 3, ranks_wished: 3 }),
      aDownCluster({ ranks_wished: 3 })
    ]) {
      expect(resting(cluster, BOUNDS)).toEqual({
        text: '3',
        oversubscribe: false
      });
    }
  });

  it('suggests a rank a slot where nothing was asked for', () => {
    expect(resting(aDownCluster(), BOUNDS).text).toBe('4');
    expect(resting(null, BOUNDS).text).toBe('4');
  });

  it('suggests two ranks that share the core where there is only one', () => {
    expect(suggested({ slots: 1, max_ranks: 64 })).toEqual({
      ranks: 2,
      oversubscribe: true
    });
  });

  it('takes whole numbers within the slots, and beyond them only when ranks may share', () => {
    const ranks = (text: string, oversubscribe = false) =>
      size({ text, oversubscribe }, BOUNDS)?.ranks;

    expect(ranks('4')).toBe(4);
    expect(ranks('5')).toBeUndefined();
    expect(ranks('5', true)).toBe(5);
    expect(ranks('65', true)).toBeUndefined();
    for (const text of ['', '0', '-1', '1.5', '1e1', 'two']) {
      expect(ranks(text)).toBeUndefined();
    }
  });
});
