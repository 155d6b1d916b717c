import { ClustersModel, isChanging } from '../clusters';
import { aCluster, aRun, FakeServer, Refusal } from './samples';

let server: FakeServer;
let model: ClustersModel;
let signals: number;

beforeEach(() => {
  server = new FakeServer();
  server.held = [aCluster()];
  model = new ClustersModel({ api: server, auto: false });
  signals = 0;
  model.changed.connect(() => (signals += 1));
});

afterEach(() => model.dispose());

it('knows nothing before the server has answered', async () => {
  expect(model.isReady).toBe(false);

  await model.refresh();

  expect(model.isReady).toBe(true);
  expect(model.cluster('default')?.ranks_asked).toBe(2);
  expect(model.bounds.slots).toBe(4);
});

it('says so only when something is not what it was', async () => {
  server.held = [aCluster({ runs: [aRun({ now: 1 })] })];
  await model.refresh();
  server.held = [aCluster({ runs: [aRun({ now: 2 })] })];
  await model.refresh();
  expect(signals).toBe(1);

  server.held = [aCluster({ runs: [aRun({ now: 3, iteration: 421 })] })];
  await model.refresh();

  expect(signals).toBe(2);
});

it('tells a turn from progress', async () => {
  let turns = 0;
  model.turned.connect(() => (turns += 1));
  server.held = [aCluster({ runs: [aRun({ iteration: 1 })] })];
  await model.refresh();
  server.held = [aCluster({ updated: 9, runs: [aRun({ iteration: 2 })] })];
  await model.refresh();
  expect([turns, signals]).toEqual([1, 2]);

  server.held = [aCluster({ runs: [aRun({ is_stopping: true })] })];
  await model.refresh();
  server.held = [aCluster()];
  await model.refresh();

  expect(turns).toBe(3);
});

it('asks for runs only while somebody shows them', async () => {
  await model.refresh();
  expect(server.asked).toEqual(['clusters']);

  const shown = model.showRuns(() => 7);
  await model.refresh();
  expect(server.asked).toContain('runs 7');

  shown.dispose();
  server.asked = [];
  await model.refresh();
  expect(server.asked).toEqual(['clusters']);
});

it('looks less often while nothing changes and no view shows runs', async () => {
  jest.useFakeTimers();
  const calm = new ClustersModel({ api: server });
  const looksIn = async (seconds: number): Promise<number> => {
    const before = server.asked.filter(one => one === 'clusters').length;
    await jest.advanceTimersByTimeAsync(1000 * seconds);
    return server.asked.filter(one => one === 'clusters').length - before;
  };
  expect(await looksIn(8)).toBeGreaterThan(6);
  await looksIn(10);
  expect(await looksIn(40)).toBeLessThan(14);

  server.held = [aCluster({ runs: [aRun({ now: 1 })] })];
  await looksIn(4);
  expect(await looksIn(5)).toBeGreaterThan(3);
  for (let iteration = 1; iteration < 40; iteration++) {
    server.held = [aCluster({ runs: [aRun({ now: 2, iteration })] })];
    await looksIn(1);
  }
  expect(await looksIn(40)).toBeLessThan(14);

  const shown = calm.showRuns(() => 7);
  await looksIn(1);
  expect(await looksIn(10)).toBeGreaterThan(8);

  shown.dispose();
  await looksIn(10);
  server.held = [aCluster({ ranks_asked: 3 })];
  await looksIn(5);
  expect(await looksIn(10)).toBeGreaterThan(15);

  calm.dispose();
  jest.useRealTimers();
});

it('shows what an action brought, and looks again at once', async () => {
  await model.refresh();
  server.asked = [];

  expect(
    await model.resize('default', { ranks: 3, oversubscribe: false })
  ).toBe(true);

  expect(model.cluster('default')?.ranks_asked).toBe(3);
  await model.refresh();
  expect(server.asked[0]).toBe('resize default');
  expect(server.asked[1]).toBe('clusters');
});

it('drops an answer that was asked for before an action', async () => {
  await model.refresh();
  let open = () => {};
  server.gate = new Promise(resolve => (open = resolve));
  const look = model.refresh();
  await Promise.resolve();
  server.gate = Promise.resolve();
  await model.resize('default', { ranks: 3, oversubscribe: false });

  open();
  await look;

  expect(model.cluster('default')?.ranks_asked).toBe(3);
});

it('shows the later of two wishes, whoever had it', async () => {
  await model.resize('default', { ranks: 3, oversubscribe: false });
  await server.resize('default', { ranks: 4, oversubscribe: false });
  await model.refresh();

  expect(model.cluster('default')?.ranks_asked).toBe(4);
});

it('keeps the sentence of a refused request until the next one', async () => {
  await model.refresh();
  server.refusal = new Refusal(404, "There is no cluster 'default'.", true);

  expect(await model.remove('default')).toBe(false);
  expect(model.refusal('default')).toBe("There is no cluster 'default'.");
  expect(model.isBusy('default')).toBe(false);

  server.refusal = null;
  await model.stopTraining('default');
  expect(model.refusal('default')).toBe('');
});

it.each([true, false])('asks before it pays more: %s', async isYes => {
  const asked: string[] = [];
  model.dispose();
  model = new ClustersModel({
    ...{ api: server, auto: false },
    confirm: async ({ cluster, sentence }) => {
      asked.push(`${cluster}: ${sentence}`);
      return isYes;
    }
  });
  server.price = 2;

  expect(await model.resize('default', { nodes: 3 })).toBe(isYes);

  expect(asked).toEqual(['default: It would cost $2/h.']);
  expect(server.asked.includes('resize default')).toBe(isYes);
});

it('is busy with a cluster while a request about it is under way', async () => {
  const request = model.stopTraining('default');

  expect(model.isBusy('default')).toBe(true);
  await request;
  expect(model.isBusy('default')).toBe(false);
});

describe('trouble', () => {
  const after = async (refusal: Error) => {
    server.refusal = refusal;
    await model.refresh();
    return model.trouble;
  };

  it('is a missing server extension when the page is not found by somebody else', async () => {
    const trouble = await after(new Refusal(404, 'Not Found', false));

    expect(trouble?.kind).toBe('absent');
    expect(trouble?.sentence).toContain('without the server extension');
  });

  it("is the store's own sentence when the server knows better", async () => {
    const trouble = await after(
      new Refusal(503, 'The store is newer; upgrade.', true)
    );

    expect(trouble).toEqual({
      kind: 'store',
      sentence: 'The store is newer; upgrade.'
    });
  });

  it('is a silent server when nothing comes back', async () => {
    expect((await after(new Refusal(0, 'Failed to fetch', false)))?.kind).toBe(
      'silent'
    );
    expect((await after(new TypeError('Failed to fetch')))?.kind).toBe(
      'silent'
    );
  });

  it('keeps what was known, is told once, and goes when the server is back', async () => {
    await model.refresh();
    await after(new Refusal(503, 'Locked.', true));
    await after(new Refusal(503, 'Locked.', true));
    expect(signals).toBe(2);
    expect(model.clusters).toHaveLength(1);

    server.refusal = null;
    await model.refresh();

    expect(model.trouble).toBeNull();
    expect(signals).toBe(3);
  });
});

it('knows what is on its way', () => {
  expect(isChanging([aCluster()])).toBe(false);
  expect(isChanging([aCluster({ state: 'starting' })])).toBe(true);
  expect(isChanging([aCluster({ ranks_actual: 1 })])).toBe(true);
  expect(isChanging([aCluster({ ranks_actual: 0, state: 'failed' })])).toBe(
    false
  );
  expect(isChanging([aCluster({ runs: [aRun({ is_stopping: true })] })])).toBe(
    true
  );
});
