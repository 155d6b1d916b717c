/**
 * Save the notebooks that show a run, so that its id and later its result are in the file.
 *
 * What could make JupyterLab open a dialog is looked for first, and the notebook is then left to
 * the person: this happens behind their back. Pages that show the same notebook take turns at this,
 * since all of them have the same to save at the same moment.
 */
import type { ICodeCellModel } from '@jupyterlab/cells';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type {
  INotebookModel,
  INotebookTracker,
  NotebookPanel
} from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';

import { RUN_TYPE, type ISavedRun } from './protocol';
import { inTurn, type ITurnsApi } from './turns';

type Context = DocumentRegistry.IContext<INotebookModel>;

// File systems are not exact about the moment of a change; JupyterLab allows for as much.
const MARGIN = 500;

/** Saves notebooks without ever asking. */
export class NotebookSaver {
  /**
   * @param isWanted - whether the person wants notebooks to be saved so
   */
  constructor(
    private readonly tracker: INotebookTracker,
    private readonly contents: Contents.IManager,
    private readonly isWanted: () => boolean,
    private readonly turns?: ITurnsApi
  ) {
    tracker.forEach(panel => this._watch(panel));
    tracker.widgetAdded.connect((_, panel) => this._watch(panel));
  }

  /** Note, before a run's result is put into notebooks, which have no other change to save. */
  prepare(run: string): void {
    for (const { context } of this._showing(run)) {
      if (!context.model.dirty) {
        this._unchanged.add(context);
      }
    }
  }

  /** Take out of the cells what rank 0 left in them, because the result of `run` has it. */
  drop(run: string): void {
    for (const { content } of this._showing(run)) {
      for (const cell of content.model?.cells ?? []) {
        if (cell.type === 'code') {
          dropStreamed(cell as ICodeCellModel, run);
        }
      }
    }
  }

  /** Save every open notebook that shows `run` and has changed. */
  async save(run: string): Promise<void> {
    const shown = this._showing(run);
    for (const { context } of shown) {
      if (this._unchanged.delete(context)) {
        this._onlyOurs.add(context);
      }
    }
    for (const { context } of this.isWanted() ? shown : []) {
      await this._save(context);
    }
  }

  private _showing(run: string): NotebookPanel[] {
    return this.tracker.filter(panel => shows(panel, run));
  }

  private _watch({ context }: NotebookPanel): void {
    context.model.contentChanged.connect(() => this._onlyOurs.delete(context));
    context.saveState.connect((_, state) => {
      if (state === 'started') {
        this._saving.add(context);
        return;
      }
      this._saving.delete(context);
      if (this._waiting.delete(context)) {
        void this._save(context);
      }
    });
  }

  private async _save(context: Context): Promise<void> {
    if (this._saving.has(context)) {
      this._waiting.add(context);
    } else if (canSave(context)) {
      const path = this.contents.localPath(context.path);
      await inTurn(path, () => this._saveNow(context), this.turns);
    }
  }

  private async _saveNow(context: Context): Promise<void> {
    const found = canSave(context) ? await this._look(context) : null;
    if (!found || !canSave(context)) {
      return;
    }
    if (!isKnown(context.contentsModel, found)) {
      this._leave(context);
    } else if (this._saving.has(context)) {
      this._waiting.add(context);
    } else {
      await context.save().catch(reason => console.warn(reason));
    }
  }

  /** Another page has saved the same result: with nothing else to save, no question is needed. */
  private _leave(context: Context): void {
    if (this._onlyOurs.has(context)) {
      context.model.dirty = false;
    }
  }

  /** How the file is now; null where it cannot be looked at. */
  private async _look({ path }: Context): Promise<Contents.IModel | null> {
    const options = { content: false, hash: true };
    return this.contents.get(path, options).catch(() => null);
  }

  private readonly _saving = new WeakSet<Context>();
  private readonly _waiting = new Set<Context>();
  private readonly _unchanged = new WeakSet<Context>();
  private readonly _onlyOurs = new WeakSet<Context>();
}

/** Whether a cell of the notebook shows `run`. */
export function shows(panel: NotebookPanel, run: string): boolean {
  for (const cell of panel.content.model?.cells ?? []) {
    const outputs =
      cell.type === 'code' ? (cell as ICodeCellModel).outputs : null;
    for (let index = 0; index < (outputs?.length ?? 0); index++) {
      const kept = outputs?.get(index).data[RUN_TYPE] as unknown as
        ISavedRun | undefined;
      if (kept?.run === run) {
        return true;
      }
    }
  }
  return false;
}

/** As `without_streamed` of the kernel's keeping.py does. */
export function dropStreamed(
  { outputs, sharedModel }: Pick<ICodeCellModel, 'outputs' | 'sharedModel'>,
  run: string
): void {
  const dropped: number[] = [];
  let shown = '';
  for (let index = 0; index < outputs.length; index++) {
    const { type, data, metadata } = outputs.get(index);
    const kept = data[RUN_TYPE] as unknown as ISavedRun | undefined;
    shown = kept?.run ?? shown;
    const own = metadata['workbench'] as { run?: unknown } | undefined;
    if ((type === 'stream' && shown === run) || own?.run === run) {
      dropped.push(index);
    }
  }
  // From the shared model, which is what is saved: it misses what is removed from the other.
  for (const index of dropped.reverse()) {
    sharedModel.updateOutputs(index, index + 1, []);
  }
}

function canSave(context: Context): boolean {
  return (
    !context.isDisposed &&
    context.isReady &&
    context.canSave !== false &&
    context.contentsModel?.writable !== false &&
    context.path !== '' &&
    context.model.dirty
  );
}

/** Whether the file is unchanged since it was read or saved here. */
function isKnown(
  known: Omit<Contents.IModel, 'content'> | null,
  found: Contents.IModel
): boolean {
  return known?.hash && found.hash
    ? known.hash === found.hash
    : moment(found) - moment(known) <= MARGIN;
}

function moment(
  model: Contents.IModel | Omit<Contents.IModel, 'content'> | null
): number {
  return model ? new Date(model.last_modified).getTime() : 0;
}
