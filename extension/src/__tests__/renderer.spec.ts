/** An output shows its run, live or as it was saved, and gets its result to keep. */
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';

import { RUN_TYPE, type ISavedRun } from '../protocol';
import {
  createRendererFactory,
  RunRenderer,
  type IRendererOptions
} from '../renderer';
import { RequestError, type Bundle } from '../request';
import {
  aFrame,
  anEndedRun,
  aRun,
  aSurvey,
  buckets,
  FakeSocket,
  kept,
  show
} from '../run/__tests__/samples';

const ID = '260101-120000-abcd';
const SAVED = {
  run: anEndedRun(),
  steps: null,
  frame: kept(aFrame([buckets([0, 1, 2])], { feed: '', version: 0 }))
};
const BUNDLE = {
  [RUN_TYPE]: { run: ID, name: 'digits', saved: SAVED },
  'text/plain': 'Run digits'
};

/** An output of a notebook. */
class Output implements IRenderMime.IMimeModel {
  constructor(saved?: ISavedRun['saved'], more: Bundle = {}) {
    this.data = {
      [RUN_TYPE]: { run: ID, name: 'digits', ...(saved && { saved }) },
      ...more
    } as never;
  }

  data: IRenderMime.IMimeModel['data'];
  trusted = true;
  readonly metadata = {};
  readonly setData = jest.fn(
    ({ data }: IRenderMime.IMimeModel.ISetDataOptions) => {
      this.data = data!;
    }
  );
}

const api = {
  getRun: jest.fn(async () => aRun()),
  stopRun: jest.fn(async () => aRun({ is_stopping: true })),
  resumeRun: jest.fn(async () => aRun({ state: 'queued', now: 1100 })),
  getBundle: jest.fn(async (): Promise<Bundle> => BUNDLE),
  getSurvey: jest.fn(async () => aSurvey()),
  getCurves: jest.fn(async () => aFrame([])),
  followUrl: (
    id: string,
    known: { feed: string; version: number; stay?: number }
  ) => `ws://here/${id}?stay=${known.stay}`
};
const onLive = jest.fn();
const onKept = jest.fn();
const onWhole = jest.fn();
const isFed = jest.fn(() => false);
let renderer: RunRenderer;

beforeEach(() => {
  jest.useFakeTimers();
  jest.clearAllMocks();
  isFed.mockReturnValue(false);
  show(true);
  FakeSocket.made = [];
  const options: IRendererOptions = {
    ...{ api, onLive, onKept, onWhole, isFed },
    create: FakeSocket.create
  };
  renderer = createRendererFactory(options).createRenderer({
    sanitizer: { sanitize: (dirty: string) => dirty.replace(/<script.*/, '') }
  } as never) as RunRenderer;
  document.body.append(renderer.node);
});

afterEach(() => {
  renderer.dispose();
  jest.useRealTimers();
});

const settle = () => jest.advanceTimersByTimeAsync(0);

async function live(output = new Output()): Promise<Output> {
  await renderer.renderModel(output);
  await settle();
  FakeSocket.last.greet();
  FakeSocket.last.give(aFrame([buckets([0, 1])], { version: 2 }));
  return output;
}

async function end(): Promise<void> {
  FakeSocket.last.say({ type: 'run', run: anEndedRun() });
  FakeSocket.last.say({ type: 'end' });
  FakeSocket.last.cut(1000);
  await settle();
}

const text = () => renderer.node.textContent;

test('untrusted notebooks are shown as well', () => {
  expect(createRendererFactory({})).toMatchObject({
    ...{ safe: true, mimeTypes: [RUN_TYPE] }
  });
});

test('a run that a stranger’s notebook names is followed on a click', async () => {
  const output = new Output(undefined, { 'image/png': 'iVBO' });
  output.trusted = false;

  await renderer.renderModel(output);
  await renderer.renderModel(output);
  await settle();
  expect(FakeSocket.made).toHaveLength(0);
  expect(api.getRun).not.toHaveBeenCalled();
  expect(renderer.node.querySelectorAll('img')).toHaveLength(1);

  renderer.node.querySelector<HTMLButtonElement>('.wb-follow')!.click();
  await settle();

  expect(FakeSocket.made).toHaveLength(1);
  expect(renderer.node.querySelector('.wb-follow')).toBeNull();
});

test('what is saved in a stranger’s notebook is shown without asking anybody', async () => {
  const output = new Output(SAVED);
  output.trusted = false;

  await renderer.renderModel(output);
  await settle();

  expect(FakeSocket.made).toHaveLength(0);
  expect(renderer.node.querySelector('.wb-follow')).toBeNull();
});

test('a run that goes on is followed', async () => {
  await live();

  expect(text()).toContain('iteration 420 of 1,000');
  expect(FakeSocket.made).toHaveLength(1);
  expect(FakeSocket.last.url).toBe(`ws://here/${ID}?stay=1`);
  expect(onLive).toHaveBeenCalledWith(ID, renderer);
});

test('what is shown stays when the output is rendered anew', async () => {
  await live();
  const chart = renderer.node.querySelector('.wb-chart');

  await renderer.renderModel(new Output());
  await settle();

  expect(renderer.node.querySelector('.wb-chart')).toBe(chart);
  expect(api.getRun).toHaveBeenCalledTimes(1);
  expect(FakeSocket.made).toHaveLength(1);
});

test('what was measured and saved is drawn without a server', async () => {
  const run = anEndedRun({ kind: 'measurement' });
  const frame = kept(aFrame([], { feed: '', version: 0 }));
  const survey = aSurvey({ picture: '' });
  const saved = { run, steps: null, frame, survey };
  await renderer.renderModel(new Output(saved, { 'image/png': 'iVBORw0K' }));
  await jest.advanceTimersByTimeAsync(60_000);

  expect(renderer.node.querySelector('.wb-survey img')).toHaveProperty(
    'src',
    'data:image/png;base64,iVBORw0K'
  );
  expect(api.getSurvey).not.toHaveBeenCalled();
  expect(FakeSocket.made).toHaveLength(0);
});

test('what was saved needs no server', async () => {
  await renderer.renderModel(new Output(SAVED));
  await jest.advanceTimersByTimeAsync(60_000);

  expect(text()).toContain('finished');
  expect(renderer.node.querySelectorAll('.wb-chart')).toHaveLength(1);
  expect(api.getRun).not.toHaveBeenCalled();
  expect(FakeSocket.made).toHaveLength(0);
});

test.each([
  ['the cell’s own error shows', true],
  ['only we can show', false]
])('a traceback that %s', async (_, raised) => {
  const run = anEndedRun({ state: 'failed', error: 'ValueError: bad' });
  const data = { run: ID, name: 'digits', raised, saved: { ...SAVED, run } };
  const output = new Output();
  output.data = { [RUN_TYPE]: data } as unknown as typeof output.data;

  await renderer.renderModel(output);

  const error = renderer.node.querySelector<HTMLElement>('.wb-error')!;
  expect(error.hidden).toBe(raised);
});

describe('at the end', () => {
  it('the output gets the result, once', async () => {
    const output = await live();
    await end();
    await renderer.renderModel(output);
    await settle();

    expect(output.setData).toHaveBeenCalledTimes(1);
    expect(output.setData).toHaveBeenCalledWith({ data: BUNDLE });
    expect(onKept.mock.calls).toEqual([[ID, renderer]]);
    expect(renderer.node.querySelectorAll('.wb-chart')).toHaveLength(1);
  });

  it('it is the newest model that gets it', async () => {
    const former = await live();
    const newer = new Output();
    await renderer.renderModel(newer);
    await end();

    expect(former.setData).not.toHaveBeenCalled();
    expect(newer.setData).toHaveBeenCalledTimes(1);
  });

  it('the kernel may have been faster', async () => {
    await live();
    const output = new Output(SAVED);
    await renderer.renderModel(output);
    await end();

    expect(api.getBundle).not.toHaveBeenCalled();
    expect(output.setData).not.toHaveBeenCalled();
    expect(onKept).toHaveBeenCalledTimes(1); // so that it is saved
  });

  it('the kernel may be faster than the answer', async () => {
    let answer!: (bundle: Bundle) => void;
    api.getBundle.mockReturnValueOnce(
      new Promise(resolve => (answer = resolve))
    );
    await live();
    await end();
    const output = new Output(SAVED);
    await renderer.renderModel(output);
    answer(BUNDLE);
    await settle();

    expect(output.setData).not.toHaveBeenCalled();
  });

  it('trouble is tried again', async () => {
    api.getBundle.mockRejectedValueOnce(new RequestError(503, 'no', true));
    const output = await live();
    await end();
    expect(output.setData).not.toHaveBeenCalled();

    await jest.advanceTimersByTimeAsync(1000);

    expect(output.setData).toHaveBeenCalledTimes(1);
  });

  it('a hidden page does it as well', async () => {
    const output = await live();
    show(false);
    await end();

    expect(output.setData).toHaveBeenCalledTimes(1);
  });
});

test('a run that ended long ago is kept when it is opened', async () => {
  api.getRun.mockResolvedValueOnce(anEndedRun());
  const output = new Output();
  await renderer.renderModel(output);
  await settle();
  FakeSocket.last.greet(anEndedRun());
  await end();

  expect(output.setData).toHaveBeenCalledTimes(1);
  expect(onLive).not.toHaveBeenCalled();
});

describe('without its run', () => {
  const unknown = () =>
    api.getRun.mockRejectedValueOnce(new RequestError(404, 'no', true));

  it('an output shows its picture', async () => {
    unknown();
    await renderer.renderModel(
      new Output(undefined, {
        'image/png': 'iVBO\n',
        'text/plain': 'It falls.'
      })
    );
    await settle();

    const picture = renderer.node.querySelector('img')!;
    expect(text()).toContain("This run is not in this machine's store");
    expect(picture.src).toBe('data:image/png;base64,iVBO');
    expect(picture.alt).toBe('It falls.');
    expect(FakeSocket.made).toHaveLength(0);
  });

  it('an output shows its text, made harmless', async () => {
    unknown();
    await renderer.renderModel(
      new Output(undefined, { 'text/html': ['<p>Kept</p>', '<script>x()'] })
    );
    await settle();

    expect(renderer.node.querySelector('.wb-kept')!.innerHTML).toBe(
      '<p>Kept</p>'
    );
  });

  it('an output shows what the kernel draws next', async () => {
    api.getRun.mockRejectedValueOnce(new RequestError(404, 'no', false));
    await renderer.renderModel(
      new Output(undefined, { 'text/html': 'queued' })
    );
    await settle();

    await renderer.renderModel(
      new Output(undefined, { 'text/html': 'iteration 3' })
    );

    const kept = renderer.node.querySelectorAll('.wb-kept');
    expect(Array.from(kept, node => node.textContent)).toEqual(['iteration 3']);
  });

  it('saved curves take the place of what the kernel drew', async () => {
    api.getRun.mockRejectedValueOnce(new RequestError(404, 'no', false));
    await renderer.renderModel(
      new Output(undefined, { 'text/html': 'iteration 3' })
    );
    await settle();

    await renderer.renderModel(new Output(SAVED, { 'text/html': 'the end' }));

    expect(renderer.node.querySelector('.wb-kept')).toBeNull();
    expect(text()).not.toContain('iteration 3');
  });

  it('saved curves have what ranks wrote below them', async () => {
    const html = '<p>Head</p><details><summary>Rank 0</summary>hi</details>';
    await renderer.renderModel(new Output(SAVED, { 'text/html': html }));
    const output =
      renderer.node.querySelector<HTMLDetailsElement>('.wb-output')!;
    output.open = true;
    output.dispatchEvent(new Event('toggle'));
    await settle();
    FakeSocket.made[0].cut(4404, 'No run has this id.');
    await settle();

    expect(output.hidden).toBe(true);
    expect(renderer.node.querySelector('.wb-kept')!.innerHTML).toBe(
      '<details><summary>Rank 0</summary>hi</details>'
    );
  });

  it('an id that cannot be one is not asked for', async () => {
    const output = new Output();
    output.data = { [RUN_TYPE]: { run: '../x', name: '' } };
    await renderer.renderModel(output);
    await settle();

    expect(api.getRun).not.toHaveBeenCalled();
    expect(text()).toContain("This run is not in this machine's store");
  });

  it('a server without our part is told how to get it', async () => {
    api.getRun.mockRejectedValueOnce(new RequestError(404, 'no', false));
    await renderer.renderModel(new Output());
    await settle();

    expect(text()).toContain(
      'jupyter server extension enable workbench.server'
    );
  });

  it('a server that is away is asked again', async () => {
    api.getRun.mockRejectedValueOnce(new RequestError(0, 'no', false));
    await renderer.renderModel(new Output());
    await settle();
    expect(text()).toContain('Connection lost; trying again…');

    await jest.advanceTimersByTimeAsync(500);

    expect(FakeSocket.made).toHaveLength(1);
  });
});

test('what was saved but cannot be read is asked for', async () => {
  jest.spyOn(console, 'warn').mockImplementationOnce(() => undefined);
  await renderer.renderModel(new Output({ ...SAVED, frame: 'AAAA' }));
  await settle();

  expect(api.getRun).toHaveBeenCalledTimes(1);
});

test('Stop asks the server, not the kernel', async () => {
  await live();
  renderer.node.querySelector<HTMLElement>('.wb-stop')!.click();
  await settle();

  expect(api.stopRun).toHaveBeenCalledWith(ID);
  expect(text()).toContain('stopping…');
});

test('a run that is resumed here is kept again at its next end', async () => {
  await live();
  FakeSocket.last.say({
    type: 'run',
    run: anEndedRun({ state: 'stopped', is_resumable: true })
  });
  FakeSocket.last.say({ type: 'end' });
  await settle();
  expect(onKept).toHaveBeenCalledTimes(1);

  renderer.node.querySelector<HTMLElement>('.wb-resume')!.click();
  await settle();
  FakeSocket.last.greet(aRun({ now: 1101 }));
  FakeSocket.last.say({ type: 'run', run: anEndedRun({ now: 1102 }) });
  FakeSocket.last.say({ type: 'end' });
  await settle();

  expect(api.resumeRun).toHaveBeenCalledWith(ID);
  expect(api.getBundle).toHaveBeenCalledTimes(2);
  expect(onKept).toHaveBeenCalledTimes(2);
});

describe('what rank 0 left in the cell', () => {
  it('gives way to a result that has it', async () => {
    await live();
    await end();

    expect(onWhole.mock.calls).toEqual([[ID, renderer]]);
  });

  it('stays where the kernel says how the run ended', async () => {
    isFed.mockReturnValue(true);
    const output = new Output();
    (output.data[RUN_TYPE] as unknown as ISavedRun).streamed = true;
    await live(output);
    await end();
    await jest.advanceTimersByTimeAsync(1_000);
    output.setData({ data: BUNDLE as never });
    await jest.advanceTimersByTimeAsync(20_000);

    expect(api.getBundle).not.toHaveBeenCalled();
    expect(onWhole).not.toHaveBeenCalled();
  });

  it('stays where the kernel may still say something', async () => {
    isFed.mockReturnValue(true);
    const output = new Output();
    (output.data[RUN_TYPE] as unknown as ISavedRun).streamed = true;
    await live(output);
    await end();
    await jest.advanceTimersByTimeAsync(20_000);

    expect(api.getBundle).toHaveBeenCalledTimes(1);
    expect(onWhole).not.toHaveBeenCalled();
  });
});

test('nothing is left behind', async () => {
  await live();
  const socket = FakeSocket.last;

  renderer.dispose();

  expect(socket.isClosed).toBe(true);
  expect(jest.getTimerCount()).toBe(0);
});
