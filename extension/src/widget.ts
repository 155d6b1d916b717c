/**
 * Show a run as an anywidget, where the lab extension is not: VS Code, Colab, plain Notebook.
 *
 * `workbench/notebook/live_widget.py` is the other side. A kernel that is busy with the cell hears
 * nothing from here, so its state holds all there is, and is repeated every few seconds.
 */
import '../style/run.css';

import {
  decodeFrame,
  type IFrame,
  type IRun,
  type ISteps,
  type ServerMessage
} from './protocol';
import { RunModel } from './run/model';
import { RunView } from './run/view';

/** The version of what the two sides say to each other. */
const VERSION = 1;

/** What is used of anywidget's model. */
export interface IWidgetModel {
  get(name: 'run'): IRun | Record<string, never>;
  get(name: 'steps'): ISteps | Record<string, never>;
  get(name: 'snapshot'): DataView;
  on(event: string, callback: (...args: never[]) => void): void;
  off(event: string, callback: (...args: never[]) => void): void;
  send(content: unknown): void;
}

type Message = { type: 'message'; message: ServerMessage } | { type: 'frame' };

/**
 * Show the run that `model` is about in `el`.
 *
 * @returns what ends that
 */
function render({
  model,
  el
}: {
  model: IWidgetModel;
  el: HTMLElement;
}): () => void {
  el.classList.add('mathjax_ignore', 'tex2jax_ignore'); // where a page typesets whole outputs
  const shown = new RunModel(idOf(model));
  const view = new RunView({
    model: shown,
    actions: {
      stop: async () => {
        model.send({ type: 'stop' });
        return 'The kernel was asked to stop the run. While it is busy with the cell, it cannot: interrupt the kernel to stop at once.';
      }
    }
  });
  const takeRun = () => {
    const run = model.get('run');
    if ('id' in run) {
      shown.applyMessage({ type: 'run', run: run as IRun });
      shown.setConnection(run.is_ended ? 'ended' : 'live');
    }
  };
  const takeSteps = () => {
    const steps = model.get('steps');
    shown.setSteps('ranks' in steps ? (steps as ISteps) : null);
  };
  const takeSnapshot = () => takeFrame(shown, model.get('snapshot'));
  const take = (content: Message, buffers: DataView[] = []) => {
    if (content.type === 'message') {
      shown.applyMessage(content.message);
    } else if (content.type === 'frame') {
      takeFrame(shown, buffers[0]);
    }
  };
  const listeners = {
    'change:run': takeRun,
    'change:steps': takeSteps,
    'change:snapshot': takeSnapshot,
    'msg:custom': take
  };
  takeRun();
  takeSteps();
  takeSnapshot();
  el.append(view.node);
  for (const [event, listener] of Object.entries(listeners)) {
    model.on(event, listener);
  }
  model.send({ type: 'hello', version: VERSION });
  return () => {
    for (const [event, listener] of Object.entries(listeners)) {
      model.off(event, listener);
    }
    view.dispose();
    shown.dispose();
  };
}

/** Take in points, unless they are older than what is there. */
function takeFrame(model: RunModel, bytes: DataView | undefined): void {
  if (!bytes?.byteLength) {
    return;
  }
  const { buffer, byteOffset, byteLength } = bytes;
  // A copy begins at a multiple of 8, which its columns need.
  const frame = decodeFrame(
    buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer
  );
  if (isNews(model, frame)) {
    model.applyFrame(frame);
  }
}

/** A page that came late may lack something before the newest; a full state repairs that. */
function isNews(model: RunModel, { feed, version, series }: IFrame): boolean {
  const isWhole = series.every(({ reset }) => reset);
  return (
    feed !== model.feed ||
    version > model.version ||
    (isWhole && version === model.version)
  );
}

function idOf(model: IWidgetModel): string {
  const run = model.get('run');
  return 'id' in run ? (run as IRun).id : '';
}

export default { render };
