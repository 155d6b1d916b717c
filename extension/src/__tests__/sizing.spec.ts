import type { ClusterState } from '../protocol';
import {
  numberOf,
  refusals,
  resting,
  size,
  sizeOf,
  suggested
} from '../sizing';
import { clusterWord } from '../words';
import said from './cluster.json';
import { aCluster, aDownCluster, aFleet, aRun } from './samples';

const BOUNDS = { slots: 4, usual_ranks: 4, max_ranks: 64 };

interface ICase {
  provider: string;
  up: boolean;
  state: ClusterState;
  asked: number;
  number: number | null;
  start: string;
  resize: string;
  delete: string;
}

describe('refusals', () => {
  it.each(said.buttons as ICase[])(
    'say why a button cannot be pressed: %j',
    one => {
      const asked = one.up ? one.asked : 0;
      const sizes = { ranks_asked: asked, nodes_asked: asked };
      const { provider, state, up: is_wanted } = one;
      const has_nodes = provider !== 'local';
      const cluster = aCluster({ has_nodes, state, is_wanted, ...sizes });

      const { start, resize, remove } = refusals(cluster, one.number);

      expect([start, resize, remove]).toEqual([
        ...[one.start, one.resize, one.delete]
      ]);
    }
  );

  it('stop training only where a run goes on that nobody has stopped', () => {
    const stop = (changes: Parameters<typeof aRun>[0]) =>
      refusals(aCluster({ runs: [aRun(changes)] }), 2).stop;

    expect(stop({})).toBe('');
    expect(stop({ is_stopping: true })).toBe('No run is in progress.');
  });

  it('come with the words of Python for states', () => {
    for (const [state, word] of Object.entries(said.states)) {
      expect(clusterWord(state as ClusterState)).toBe(word);
    }
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

  it('suggests the usual ranks where nothing was asked for', () => {
    expect(resting(aDownCluster(), BOUNDS).text).toBe('4');
    expect(resting(null, BOUNDS).text).toBe('4');
  });

  it('suggests that ranks share cores only where there are fewer', () => {
    expect(suggested({ ...BOUNDS, slots: 1, usual_ranks: 2 })).toEqual({
      ranks: 2,
      oversubscribe: true
    });
    expect(suggested({ ...BOUNDS, usual_ranks: 1 })).toEqual({
      ranks: 1,
      oversubscribe: false
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
