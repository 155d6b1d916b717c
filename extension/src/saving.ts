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

  /** Save every open notebook that shows `run` and has changed. */
  async save(run: string): Promise<void> {
    if (!this.isWanted()) {
      return;
    }
    for (const panel of this.tracker.filter(panel => shows(panel, run))) {
      await this._save(panel.context);
    }
  }

  private _watch({ context }: NotebookPanel): void {
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
    if (canSave(context)) {
      const path = this.contents.localPath(context.path);
      await inTurn(path, () => this._saveNow(context), this.turns);
    }
  }

  private async _saveNow(context: Context): Promise<void> {
    if (this._saving.has(context)) {
      this._waiting.add(context);
    } else if (
      canSave(context) &&
      (await this._isAsWeKnowIt(context)) &&
      canSave(context) &&
      !this._saving.has(context)
    ) {
      await context.save().catch(reason => console.warn(reason));
    }
  }

  /** Whether nobody else has changed the file since it was read or saved here. */
  private async _isAsWeKnowIt(context: Context): Promise<boolean> {
    const known = context.contentsModel;
    try {
      const found = await this.contents.get(context.path, {
        content: false,
        hash: true
      });
      return known?.hash && found.hash
        ? known.hash === found.hash
        : moment(found) - moment(known) <= MARGIN;
    } catch {
      return false;
    }
  }

  private readonly _saving = new WeakSet<Context>();
  private readonly _waiting = new Set<Context>();
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

function moment(
  model: Contents.IModel | Omit<Contents.IModel, 'content'> | null
): number {
  return model ? new Date(model.last_modified).getTime() : 0;
}
