import { Announcer, news } from '../announcer';
import { ClustersModel } from '../clusters';
import { aCluster, aRun, FakeServer } from './samples';

describe('news', () => {
  it('tells a cluster that is in another state', () => {
    const before = [aCluster({ state: 'starting' })];

    expect(news(before, [aCluster()])).toEqual([
      'Cluster default: ready, 2 of 2 ranks'
    ]);
    expect(news(before, [aCluster({ state: 'failed' })])).toEqual([
      'Cluster default: failed'
    ]);
  });

  it('tells a run that began and one that ended, but not how it goes on', () => {
    const first = aRun({ id: 'a', name: 'first' });
    const second = aRun({ id: 'b', name: 'second', iteration: 1 });
    const before = [aCluster({ runs: [first, second] })];
    const later = { ...second, iteration: 2 };
    const third = aRun({ id: 'c', name: 'third', state: 'queued' });
    const after = [aCluster({ runs: [later, third] })];

    expect(news(before, after)).toEqual([
      'Run third: queued',
      'Run first has ended'
    ]);
  });
});

it('leaves a run that is in sight to its own view', () => {
  const before = [aCluster({ runs: [aRun()] })];

  expect(news(before, [aCluster()], () => true)).toEqual([]);
});

describe('Announcer', () => {
  let server: FakeServer;
  let model: ClustersModel;
  let announcer: Announcer;

  const see = async (changes: Parameters<typeof aCluster>[0]) => {
    server.held = [aCluster(changes)];
    await model.refresh();
  };

  beforeEach(async () => {
    server = new FakeServer();
    model = new ClustersModel({ api: server, auto: false });
    announcer = new Announcer(model);
    await see({ state: 'starting' });
    jest.useFakeTimers({
      doNotFake: ['queueMicrotask', 'requestAnimationFrame']
    });
  });

  afterEach(() => {
    jest.useRealTimers();
    announcer.dispose();
    model.dispose();
  });

  it('leaves the end of a run to a view of the same run, not of the same name', async () => {
    jest
      .spyOn(HTMLElement.prototype, 'offsetParent', 'get')
      .mockReturnValue(document.body);
    const view = document.createElement('div');
    view.className = 'wb-run';
    view.dataset.run = 'a';
    document.body.append(view);
    const runs = [aRun({ id: 'a' }), aRun({ id: 'b', name: 'other' })];
    server.start = async () => server.held[0];
    server.held = [aCluster({ state: 'starting', runs })];
    await model.start('default');
    jest.advanceTimersByTime(3000);

    server.held = [aCluster({ state: 'starting' })];
    await model.start('default');
    jest.advanceTimersByTime(3000);

    expect(announcer.node.textContent).toBe('Run other has ended');
    view.remove();
    jest.restoreAllMocks();
  });

  it('is a polite live region that is silent at first', () => {
    expect(announcer.node.getAttribute('aria-live')).toBe('polite');
    expect(announcer.node.textContent).toBe('');
  });

  it('gathers what comes within a few seconds', async () => {
    const say = (state: 'ready' | 'failed' | 'resizing') => {
      server.held = [aCluster({ state })];
      return model.start('default');
    };
    server.start = async () => server.held[0];
    await say('ready');
    expect(announcer.node.textContent).toContain('ready');

    await say('resizing');
    await say('failed');
    expect(announcer.node.textContent).toContain('ready');
    jest.advanceTimersByTime(3000);

    expect(announcer.node.textContent).toBe(
      'Cluster default: resizing. Cluster default: failed'
    );
  });
});
