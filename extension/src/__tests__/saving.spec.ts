/** Notebooks are saved behind a person's back, and never so that JupyterLab has to ask. */
import type { INotebookTracker } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

import { RUN_TYPE } from '../protocol';
import { dropStreamed, NotebookSaver } from '../saving';
import type { ITurnsApi } from '../turns';

const RUN = '250101-120000-abcd';
const THEN = '2025-01-01T00:00:00Z';

const tick = () => new Promise(resolve => setTimeout(resolve));

/** A file, the server's turns at it, and how often JupyterLab would have asked about it. */
class FakeFile implements ITurnsApi {
  found: object | Error = { hash: 'a', last_modified: THEN };
  saves = 0;
  dialogs = 0;
  turn = '';
  broken = false;

  async takeTurn(holder: string): Promise<boolean> {
    await tick();
    if (this.broken) {
      throw new Error('404');
    }
    this.turn ||= holder;
    return this.turn === holder;
  }

  async endTurn(holder: string): Promise<void> {
    await tick();
    if (this.turn === holder) {
      this.turn = '';
    }
  }

  readonly contents = {
    localPath: (path: string) => path,
    get: async () => {
      await tick();
      if (this.found instanceof Error) {
        throw this.found;
      }
      return this.found;
    }
  };
}

/** A page with a notebook, one cell of which shows a run. */
class FakePage {
  constructor(private readonly file: FakeFile) {
    this.saver = new NotebookSaver(
      this.tracker as unknown as INotebookTracker,
      file.contents as unknown as Contents.IManager,
      () => this.isWanted,
      file
    );
  }

  readonly saver: NotebookSaver;
  isWanted = true;
  readonly state = new Signal<object, string>(this);
  context = {
    isDisposed: false,
    isReady: true,
    canSave: true,
    path: 'a.ipynb',
    model: { dirty: true, toJSON: () => this.content },
    contentsModel: {
      ...{ writable: true, hash: 'a' as string | undefined },
      last_modified: THEN
    },
    saveState: this.state,
    /** As JupyterLab does it. */
    save: async () => {
      const { file, context } = this;
      const { hash } = (await file.contents.get()) as { hash?: string };
      await tick();
      if (hash !== context.contentsModel.hash) {
        file.dialogs += 1;
        return;
      }
      file.saves += 1;
      const content = structuredClone(this.content);
      file.found = {
        ...{ hash: `save ${file.saves}`, content },
        last_modified: THEN
      };
      context.contentsModel.hash = `save ${file.saves}`;
      context.model.dirty = false;
    }
  };

  async show(run = RUN): Promise<number> {
    await this.saver.save(run);
    return this.file.saves;
  }

  readonly output = {
    output_type: 'display_data',
    data: { [RUN_TYPE]: { run: RUN, name: 'digits' } as object }
  };
  readonly cell = {
    cell_type: 'code',
    execution_count: null as number | null,
    metadata: {},
    source: 'train()',
    outputs: [this.output] as object[]
  };
  readonly title = { cell_type: 'markdown', metadata: {}, source: 'Title' };
  readonly content = { cells: [this.title, this.cell], metadata: {} };
  readonly executed = {
    type: 'code',
    outputs: { length: 1, get: () => this.output },
    executionState: 'idle',
    stateChanged: new Signal<object, object>(this)
  };
  private readonly panel = {
    context: this.context,
    content: { model: { cells: [{ type: 'markdown' }, this.executed] } }
  };
  private readonly tracker = {
    forEach: (act: (panel: object) => void) => act(this.panel),
    filter: (test: (panel: object) => boolean) => [this.panel].filter(test),
    widgetAdded: new Signal<object, object>(this)
  };
}

let file: FakeFile;
let page: FakePage;

beforeEach(() => {
  file = new FakeFile();
  page = new FakePage(file);
});

it('saves the notebook that shows the run', async () => {
  expect(await page.show()).toBe(1);
});

it('saves no notebook that does not show it', async () => {
  expect(await page.show('250101-120000-zzzz')).toBe(0);
});

it('saves nothing when the person does not want it', async () => {
  page.isWanted = false;

  expect(await page.show()).toBe(0);
});

it('leaves alone what is unchanged, read-only, unnamed or gone', async () => {
  const { context } = page;
  for (const change of [
    () => (context.model.dirty = false),
    () => Object.assign(context, { canSave: false, model: { dirty: true } }),
    () => Object.assign(context, { canSave: true, path: '' }),
    () => Object.assign(context, { path: 'a.ipynb', isDisposed: true })
  ]) {
    change();
    expect(await page.show()).toBe(0);
  }
});

it('leaves a file alone that somebody else has changed: that would ask', async () => {
  file.found = { hash: 'b', last_modified: THEN };
  expect(await page.show()).toBe(0);

  page.context.contentsModel.hash = undefined;
  file.found = { last_modified: '2025-01-01T00:00:01Z' };
  expect(await page.show()).toBe(0);

  file.found = { last_modified: '2025-01-01T00:00:00.3Z' };
  expect(await page.show()).toBe(1);
});

it('leaves a file alone that cannot be looked at', async () => {
  file.found = new Error('404');

  expect(await page.show()).toBe(0);
});

it('waits until the current save is over', async () => {
  page.state.emit('started');
  expect(await page.show()).toBe(0);

  page.state.emit('completed');
  while (!file.saves) {
    await tick();
  }

  expect(file.saves).toBe(1);
});

it('saves again when the cell has been executed', async () => {
  const { context, executed } = page;
  executed.executionState = 'running';
  await page.show();
  context.model.dirty = true; // the cell has its number

  executed.executionState = 'idle';
  executed.stateChanged.emit({ name: 'executionState' });
  while (file.saves < 2) {
    await tick();
  }
  context.model.dirty = true;
  executed.stateChanged.emit({ name: 'executionState' });
  await tick();

  expect([file.saves, file.dialogs]).toEqual([2, 0]);
});

it('saves again when the cell gets its number during the save', async () => {
  const { context, executed } = page;
  const save = context.save;
  context.save = async () => {
    await save();
    if (file.saves === 1) {
      context.model.dirty = true;
      executed.executionState = 'idle';
      executed.stateChanged.emit({ name: 'executionState' });
    }
  };
  executed.executionState = 'running';

  await page.show();
  while (file.saves < 2) {
    await tick();
  }

  expect(context.model.dirty).toBe(false);
});

describe('pages that show the same notebook', () => {
  it('save one after another, and the later ones leave it alone', async () => {
    const pages = [page, new FakePage(file), new FakePage(file)];

    await Promise.all(pages.map(page => page.show()));

    expect([file.saves, file.dialogs]).toEqual([1, 0]);
    expect(file.turn).toBe('');
  });

  it('have nothing to ask about later, unless the user changed something', async () => {
    const [other, typing] = [new FakePage(file), new FakePage(file)];
    other.cell.execution_count = 3;
    other.cell.metadata = { execution: { 'shell.execute_reply': THEN } };
    other.cell.outputs.push({ output_type: 'stream', text: 'of rank 0' });
    typing.title.source = 'A title';

    await Promise.all([page, other, typing].map(page => page.show()));

    expect([file.saves, file.dialogs]).toEqual([1, 0]);
    expect(other.context.model.dirty).toBe(false);
    expect(typing.context.model.dirty).toBe(true);
  });

  it('have something to ask about where the file lacks the result', async () => {
    const other = new FakePage(file);
    Object.assign(other.output.data[RUN_TYPE], { saved: {} });

    await page.show();
    await other.show();

    expect(other.context.model.dirty).toBe(true);
  });

  it('save as ever where the server knows no turns', async () => {
    file.broken = true;

    expect(await page.show()).toBe(1);
  });

  it('wait no longer than a minute for one that goes on and on', async () => {
    file.turn = 'another';
    const now = jest.spyOn(Date, 'now').mockReturnValue(0);
    const shown = page.show();
    await tick();
    now.mockReturnValue(60_000);

    expect(await shown).toBe(0);
    expect(file.turn).toBe('another');
    now.mockRestore();
  });

  it('have their turn though one could not save', async () => {
    page.context.save = async () => {
      throw new Error('The disk is full.');
    };
    const warn = jest.spyOn(console, 'warn').mockImplementation();

    await page.show();

    expect(file.turn).toBe('');
    expect(await new FakePage(file).show()).toBe(1);
    warn.mockRestore();
  });
});

test('what rank 0 left in a cell is dropped, and nothing else', () => {
  const own = { workbench: { run: RUN } };
  const of = (run: string) => ({ [RUN_TYPE]: { run } });
  const outputs = [
    { type: 'stream', data: { text: 'Starting' }, metadata: {} },
    { type: 'display_data', data: of(RUN), metadata: {} },
    { type: 'stream', data: { text: 'of rank 0' }, metadata: {} },
    { type: 'display_data', data: { 'image/png': 'AAAA' }, metadata: own },
    { type: 'display_data', data: { 'image/png': 'BBBB' }, metadata: {} },
    { type: 'display_data', data: of('another'), metadata: {} },
    { type: 'stream', data: { text: 'of another' }, metadata: {} }
  ];
  const left = outputs.filter((_, index) => index !== 2 && index !== 3);
  const model = {
    get: (index: number) => outputs[index],
    get length() {
      return outputs.length;
    }
  };

  const sharedModel = {
    updateOutputs: (start: number, end: number) =>
      outputs.splice(start, end - start)
  };

  dropStreamed({ outputs: model, sharedModel } as never, RUN);

  expect(outputs).toEqual(left);
});
