/**
 * Show a cluster's form as an anywidget, below a cell that calls %dist_cluster.
 *
 * `workbench/notebook/cluster_panel.py` is the other side. Its state is what is shown, which it keeps up to date
 * while the kernel is busy; a request is heard when the kernel is free.
 */
import '../style/cluster.css';

import * as React from 'react';
import { createRoot } from 'react-dom/client';

import { Action } from './action';
import { clusterApi, type Ask } from './api';
import { ClusterCard } from './clustercard';
import { ClustersModel, type IQuestion } from './clusters';
import type { IClusters, IForm } from './protocol';
import { asked, removal } from './question';
import { keepKeys } from './run/keys';
import { unborn } from './sizing';

/** After so many milliseconds in which the kernel did not hear a request, it is busy. */
const PATIENCE = 1500;

/** What is used of anywidget's model. */
export interface IPanelModel {
  get(name: 'cluster'): string;
  get(name: 'clusters'): IClusters;
  get(name: 'form'): IForm;
  on(event: string, callback: (...args: never[]) => void): void;
  off(event: string, callback: (...args: never[]) => void): void;
  send(content: unknown): void;
}

interface IAnswer {
  id: number;
  /** The kernel works on it. */
  is_heard?: boolean;
  answer?: unknown;
  refusal?: { message: string; price: number | null };
}

interface IWaiting {
  resolve: (answer: unknown) => void;
  reject: (error: unknown) => void;
  timer: number;
}

/** The requests to a kernel. */
class Requests {
  constructor(
    private readonly model: IPanelModel,
    private readonly tellBusy: (isBusy: boolean) => void
  ) {}

  readonly ask: Ask = <T,>(method: string, path: string[], asking = {}) =>
    new Promise<T>((resolve, reject) => {
      const id = ++this._last;
      const timer = window.setTimeout(() => this.tellBusy(true), PATIENCE);
      const waiting = { resolve, reject, timer } as IWaiting;
      this._waiting.set(id, waiting);
      this.model.send({ id, method, path, ...asking });
    });

  take(message: IAnswer): void {
    const { id, is_heard: isHeard, answer, refusal } = message;
    const waiting = this._waiting.get(id);
    if (!waiting) {
      return; // another page asked
    }
    clearTimeout(waiting.timer);
    this.tellBusy(false);
    if (isHeard) {
      return;
    }
    this._waiting.delete(id);
    if (refusal) {
      const price = refusal.price ?? undefined;
      waiting.reject({ ...refusal, price, status: 0, isOurs: true });
    } else {
      waiting.resolve(answer);
    }
  }

  dispose(): void {
    this._waiting.forEach(({ timer }) => clearTimeout(timer));
    this._waiting.clear();
  }

  private readonly _waiting = new Map<number, IWaiting>();
  private _last = Math.floor(Math.random() * 1e9) * 1000; // pages share a kernel
}

/** A question by what is true at the moment, and what is done with the answer. */
interface IAsked {
  current: () => IQuestion;
  answer: (isYes: boolean) => void;
}

/** Show the form that `model` is about in `el`; what is returned ends that. */
function render({
  model,
  el
}: {
  model: IPanelModel;
  el: HTMLElement;
}): () => void {
  el.classList.add('mathjax_ignore', 'tex2jax_ignore'); // where a page typesets whole outputs
  const name = model.get('cluster');
  let question: IAsked | null = null;
  let isBusy = false;
  const requests = new Requests(model, now => {
    isBusy = now;
    draw();
  });
  const clusters = new ClustersModel({
    api: {
      ...clusterApi(requests.ask),
      clusters: async () => model.get('clusters'),
      form: async () => model.get('form')
    },
    auto: false,
    confirm: asked => confirm(() => asked)
  });
  const confirm = (current: () => IQuestion) =>
    new Promise<boolean>(resolve => {
      question?.answer(false);
      const answer = (isYes: boolean) => {
        question = null;
        resolve(isYes);
        draw();
      };
      question = { current, answer };
      draw();
    });
  const remove = async () => {
    if (await confirm(() => removal(name, clusters.cluster(name)))) {
      await clusters.remove(name);
    }
  };

  const node = document.createElement('div');
  const hasTheme = !!getComputedStyle(document.documentElement)
    .getPropertyValue('--jp-layout-color1')
    .trim();
  node.className = hasTheme ? 'wb-below-cell' : 'wb-below-cell wb-mod-plain';
  el.append(node);
  const root = createRoot(node);
  const draw = () => {
    root.render(
      <>
        {clusters.isReady && (
          <ClusterCard
            cluster={clusters.cluster(name) ?? unborn(name)}
            title={`Cluster ${name}`}
            model={clusters}
            actions={{ remove: () => void remove() }}
          />
        )}
        {question && (
          <Question question={question.current()} answer={question.answer} />
        )}
        {isBusy && (
          <p className="wb-said" role="status">
            {
              'The kernel is busy with a cell; it does what was asked for afterwards.'
            }
          </p>
        )}
      </>
    );
  };
  const refresh = () => void clusters.refresh();
  const listeners = {
    'change:clusters': refresh,
    'msg:custom': (message: IAnswer) => requests.take(message)
  };
  for (const [event, listener] of Object.entries(listeners)) {
    model.on(event, listener);
  }
  clusters.changed.connect(draw);
  const release = keepKeys(node);
  refresh();
  return () => {
    for (const [event, listener] of Object.entries(listeners)) {
      model.off(event, listener);
    }
    release();
    requests.dispose();
    clusters.dispose();
    root.unmount();
    node.remove();
  };
}

function Question({
  question,
  answer
}: {
  question: IQuestion;
  answer: IAsked['answer'];
}): JSX.Element {
  const { title, yes, isWarning } = question;
  return (
    <div className="wb-question" role="alert">
      <strong>{title}</strong>
      <div>{asked(question)}</div>
      <div className="wb-controls-row">
        <Action
          label={yes}
          title={title}
          kind={isWarning ? 'warn' : 'main'}
          act={() => answer(true)}
        />
        <Action
          label={'Cancel'}
          title={'Change nothing'}
          act={() => answer(false)}
        />
      </div>
    </div>
  );
}

export default { render };
