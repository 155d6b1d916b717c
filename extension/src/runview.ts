/**
 * Have notebooks show the runs of their cells, and be saved when these begin and end.
 */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { Widget } from '@lumino/widgets';

import { styleOf } from './preferences';
import { createRendererFactory } from './renderer';
import type { Render } from './run/displayed';
import { NotebookSaver } from './saving';
import { IWorkbench } from './tokens';

/** Before ipywidgets, whose rank is -10: the same output has a widget for pages without us. */
const RANK = -20;

export const runViewPlugin: JupyterFrontEndPlugin<void> = {
  id: 'workbench-lab:run-view',
  description: 'Shows the run of a cell, live and after a reload.',
  autoStart: true,
  requires: [IWorkbench, IRenderMimeRegistry],
  optional: [INotebookTracker],
  activate: (
    app,
    { clusters, preferences }: IWorkbench,
    rendermime: IRenderMimeRegistry,
    tracker: INotebookTracker | null
  ) => {
    const { contents } = app.serviceManager;
    const isWanted = () => preferences.values.saveNotebook;
    const saver = tracker && new NotebookSaver(tracker, contents, isWanted);
    const turn = (run: string) => {
      void saver?.save(run);
      void clusters.refresh(); // which is looked at seldom while a run only makes progress
    };
    const factory = createRendererFactory({
      style: () => styleOf(preferences.values),
      styleChanged: preferences.changed,
      render: sanitizing(rendermime),
      isFed,
      onWhole: run => saver?.drop(run),
      onLive: turn,
      onKept: turn
    });
    rendermime.addFactory(factory, RANK);
  }
};

type OutputArea = Widget & { future: { isDisposed: boolean } | null };

/** Whether a cell that `widget` is in was executed by this page, whose kernel is still there. */
function isFed(widget: Widget): boolean {
  for (let at: Widget | null = widget; at; at = at.parent) {
    if ('future' in at) {
      const { future } = at as OutputArea;
      return !!future && !future.isDisposed;
    }
  }
  return false;
}

/** Show ranks' displays by JupyterLab's own renderers, as untrusted content. */
function sanitizing(rendermime: IRenderMimeRegistry): Render {
  return (type, text) => {
    const renderer = rendermime.createRenderer(type);
    const model = rendermime.createModel({
      data: { [type]: text },
      trusted: false
    });
    renderer
      .renderModel(model)
      .then(() => rendermime.latexTypesetter?.typeset(renderer.node))
      .catch(reason => console.warn('workbench: not shown', reason));
    return renderer.node;
  };
}
