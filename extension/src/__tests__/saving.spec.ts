import type { INotebookTracker } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

import { RUN_TYPE } from '../protocol';
import { NotebookSaver } from '../saving';

const RUN = '250101-120000-abcd';

/** A notebook with one cell that shows a run. */
class FakeNotebook {
  saves = 0;
  isWanted = true;
  readonly state = new Signal<object, string>(this);
  found: object | Error = { hash: 'a', last_modified: '2025-01-01T00:00:00Z' };
  context = {
    isDisposed: false,
    isReady: true,
    canSave: true,
    path: 'a.ipynb',
    model: { dirty: true },
    contentsModel: {
      ...{ writable: true, hash: 'a' as string | undefined },
      last_modified: '2025-01-01T00:00:00Z'
    },
    saveState: this.state,
    save: async () => {
      this.saves += 1;
    }
  };

  async show(run = RUN): Promise<number> {
    await this.saver.save(run);
    return this.saves;
  }

  private readonly output = {
    data: { [RUN_TYPE]: { run: RUN, name: 'digits' } }
  };
  private readonly panel = {
    context: this.context,
    content: {
      model: {
        cells: [
          { type: 'markdown' },
          { type: 'code', outputs: { length: 1, get: () => this.output } }
        ]
      }
    }
  };
  private readonly tracker = {
    forEach: (act: (panel: object) => void) => act(this.panel),
    filter: (test: (panel: object) => boolean) => [this.panel].filter(test),
    widgetAdded: new Signal<object, object>(this)
  };
  private readonly contents = {
    get: async () => {
      if (this.found instanceof Error) {
        throw this.found;
      }
      return this.found;
    }
  };
  readonly saver = new NotebookSaver(
    this.tracker as unknown as INotebookTracker,
    this.contents as unknown as Contents.IManager,
    () => this.isWanted
  );
}

let notebook: FakeNotebook;

beforeEach(() => {
  notebook = new FakeNotebook();
});

it('saves the notebook that shows the run', async () => {
  expect(await notebook.show()).toBe(1);
});

it('saves no notebook that does not show it', async () => {
  expect(await notebook.show('250101-120000-zzzz')).toBe(0);
});

it('saves nothing when the person does not want it', async () => {
  notebook.isWanted = false;

  expect(await notebook.show()).toBe(0);
});

it('leaves alone what is unchanged, read-only, unnamed or gone', async () => {
  const { context } = notebook;
  for (const change of [
    () => (context.model.dirty = false),
    () => Object.assign(context, { canSave: false, model: { dirty: true } }),
    () => Object.assign(context, { canSave: true, path: '' }),
    () => Object.assign(context, { path: 'a.ipynb', isDisposed: true })
  ]) {
    change();
    expect(await notebook.show()).toBe(0);
  }
});

it('leaves a file alone that somebody else has changed: that would ask', async () => {
  notebook.found = { hash: 'b', last_modified: '2025-01-01T00:00:00Z' };
  expect(await notebook.show()).toBe(0);

  notebook.context.contentsModel.hash = undefined;
  notebook.found = { last_modified: '2025-01-01T00:00:01Z' };
  expect(await notebook.show()).toBe(0);

  notebook.found = { last_modified: '2025-01-01T00:00:00.3Z' };
  expect(await notebook.show()).toBe(1);
});

it('leaves a file alone that cannot be looked at', async () => {
  notebook.found = new Error('404');

  expect(await notebook.show()).toBe(0);
});

it('waits until a save that goes on is over', async () => {
  notebook.state.emit('started');
  expect(await notebook.show()).toBe(0);

  notebook.state.emit('completed');
  await new Promise(resolve => setTimeout(resolve));

  expect(notebook.saves).toBe(1);
});
