/**
 * Save the notebooks that show a run, so that its id and later its result are in the file.
 *
 * What could make JupyterLab open a dialog is looked for first, and the notebook is then left to
 * the user, who has not asked for this save. Pages that show the same notebook take turns at this,
 * since all of them have the same to save at the same moment.
 */
import type { ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type {
  INotebookModel,
  INotebookTracker,
  NotebookPanel
} from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import {
  JSONExt,
  type PartialJSONObject,
  type PartialJSONValue
} from '@lumino/coreutils';

import { RUN_TYPE, type ISavedRun } from './protocol';
import { inTurn, type ITurnsApi } from './turns';

type Context = DocumentRegistry.IContext<INotebookModel>;

/** What is compared of a notebook's file. */
interface INotebookContent {
  cells: ICell[];
  metadata: PartialJSONObject;
}

interface ICell {
  cell_type: string;
  source: string | string[];
  metadata: PartialJSONObject;
  attachments?: PartialJSONObject;
  outputs?: PartialJSONObject[];
}

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
    for (const panel of this.isWanted() ? this._showing(run) : []) {
      this._saveWhenExecuted(panel, run); // first, as it may end while this is saved
      await this._save(panel.context);
    }
  }

  private _showing(run: string): NotebookPanel[] {
    return this.tracker.filter(panel => shows(panel, run));
  }

  /** Save once more when the cell has been executed: its number changes the notebook. */
  private _saveWhenExecuted({ content, context }: NotebookPanel, run: string) {
    for (const cell of content.model?.cells ?? []) {
      if (showsRun(cell, run) && cell.executionState === 'running') {
        const onChange = (_: ICellModel, { name }: { name: string }) => {
          if (name === 'executionState' && cell.executionState === 'idle') {
            cell.stateChanged.disconnect(onChange);
            void this._save(context);
          }
        };
        cell.stateChanged.connect(onChange);
      }
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
      await this._leave(context);
    } else if (this._saving.has(context)) {
      this._waiting.add(context);
    } else {
      await context.save().catch(reason => console.warn(reason));
    }
  }

  /** Another page has saved the file: if it holds all that is here, no question is needed. */
  private async _leave(context: Context): Promise<void> {
    const file = await this._look(context, true);
    const content = file?.content as INotebookContent | undefined;
    if (
      content &&
      holds(content, context.model.toJSON() as unknown as INotebookContent)
    ) {
      context.model.dirty = false;
    }
  }

  /** How the file is now; null where it cannot be looked at. */
  private async _look(
    { path }: Context,
    content = false
  ): Promise<Contents.IModel | null> {
    const options = { content, hash: true };
    return this.contents.get(path, options).catch(() => null);
  }

  private readonly _saving = new WeakSet<Context>();
  private readonly _waiting = new Set<Context>();
}

/** Whether a cell of the notebook shows `run`. */
export function shows(panel: NotebookPanel, run: string): boolean {
  const cells = panel.content.model?.cells ?? [];
  return [...cells].some(cell => showsRun(cell, run));
}

function showsRun(cell: ICellModel, run: string): cell is ICodeCellModel {
  if (cell.type !== 'code') {
    return false;
  }
  const { outputs } = cell as ICodeCellModel;
  for (let index = 0; index < outputs.length; index++) {
    const kept = outputs.get(index).data[RUN_TYPE] as unknown;
    if ((kept as ISavedRun | undefined)?.run === run) {
      return true;
    }
  }
  return false;
}

/**
 * Whether a file holds all that a person could miss of a notebook.
 *
 * Of a cell that shows a run, that is its result: what is streamed beside it and when the cell was
 * executed are known to the page alone that executed it.
 */
export function holds(file: INotebookContent, own: INotebookContent): boolean {
  return (
    file.cells.length === own.cells.length &&
    own.cells.every((cell, index) => holdsCell(file.cells[index], cell)) &&
    isSame(file.metadata, own.metadata)
  );
}

function holdsCell(file: ICell, own: ICell): boolean {
  const [held, shown] = [savedRun(file), savedRun(own)];
  const hasResult = held?.run === shown?.run && (held?.saved || !shown?.saved);
  return (
    file.cell_type === own.cell_type &&
    joined(file.source) === joined(own.source) &&
    isSame(settled(file.metadata), settled(own.metadata)) &&
    isSame(file.attachments, own.attachments) &&
    (shown ? !!hasResult : isSame(file.outputs, own.outputs))
  );
}

/** The run that a cell of a file shows. */
function savedRun({ outputs }: ICell): ISavedRun | undefined {
  const data = outputs?.map(output => output.data as PartialJSONObject);
  const kept = data?.find(one => one?.[RUN_TYPE])?.[RUN_TYPE];
  return kept as unknown as ISavedRun | undefined;
}

/** A cell's metadata without what changes by executing or reading it. */
function settled(metadata: PartialJSONObject): PartialJSONObject {
  const { execution, trusted, ...rest } = metadata;
  return rest;
}

/** Whether two values are the same, where a file may hold a text as its lines. */
function isSame(
  one: PartialJSONValue | undefined,
  other: PartialJSONValue | undefined
): boolean {
  return JSONExt.deepEqual(normal(one), normal(other));
}

function normal(value: PartialJSONValue | undefined): PartialJSONValue {
  if (Array.isArray(value)) {
    const isText = value.length && value.every(one => typeof one === 'string');
    return isText ? value.join('') : value.map(normal);
  }
  if (value && typeof value === 'object') {
    const entries = Object.entries(value).filter(
      ([name]) => name !== 'execution_count'
    );
    return Object.fromEntries(
      entries.map(([name, one]) => [name, normal(one)])
    );
  }
  return value ?? null;
}

function joined(text: string | string[]): string {
  return typeof text === 'string' ? text : text.join('');
}

/** As `drop_streamed` of notebook/notebook_file.py does. */
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
