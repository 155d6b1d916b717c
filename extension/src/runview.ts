/**
 * Have notebooks show the runs of their cells, and be saved when these begin and end.
 */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ITranslator } from '@jupyterlab/translation';

import { styleOf } from './preferences';
import { createRendererFactory } from './renderer';
import { NotebookSaver } from './saving';
import { DOMAIN, IWorkbench } from './tokens';

/** Before ipywidgets, whose rank is -10: the same output has a widget for pages without us. */
const RANK = -20;

export const runViewPlugin: JupyterFrontEndPlugin<void> = {
  id: 'workbench-lab:run-view',
  description: 'Shows the run of a cell, live and after a reload.',
  autoStart: true,
  requires: [IWorkbench, IRenderMimeRegistry, ITranslator],
  optional: [INotebookTracker],
  activate: (
    app,
    { preferences }: IWorkbench,
    rendermime: IRenderMimeRegistry,
    translator: ITranslator,
    tracker: INotebookTracker | null
  ) => {
    const { contents } = app.serviceManager;
    const isWanted = () => preferences.values.saveNotebook;
    const saver = tracker && new NotebookSaver(tracker, contents, isWanted);
    const factory = createRendererFactory({
      trans: translator.load(DOMAIN),
      style: () => styleOf(preferences.values),
      styleChanged: preferences.changed,
      onLive: run => void saver?.save(run),
      onKeeping: run => saver?.prepare(run),
      onKept: run => void saver?.save(run)
    });
    rendermime.addFactory(factory, RANK);
  }
};
