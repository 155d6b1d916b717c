/**
 * Announce news of clusters and runs to screen readers, at a limited rate.
 */
import type { IDisposable } from '@lumino/disposable';

import type { ClustersModel } from './clusters';
import type { ICluster, IRun } from './protocol';
import { viewsInSight } from './run/announcer';
import { stateWord } from './run/phrases';
import { clusterWord, ranksWord } from './words';

const EVERY = 3000;

/**
 * The news since the last call, in sentences.
 *
 * @param isShown - whether a run's view is visible, and announces its news itself
 */
export function news(
  before: readonly ICluster[],
  after: readonly ICluster[],
  isShown: (run: IRun) => boolean = () => false
): string[] {
  return after.flatMap(cluster => {
    const former = before.find(one => one.name === cluster.name);
    if (!former) {
      return [];
    }
    const said: string[] = [];
    if (former.state !== cluster.state) {
      const word = clusterWord(cluster.state);
      said.push(
        cluster.state === 'ready'
          ? `Cluster ${cluster.name}: ${word}, ${ranksWord(cluster.ranks_actual, cluster.ranks_asked)}`
          : `Cluster ${cluster.name}: ${word}`
      );
    }
    const hidden = (runs: IRun[]) => runs.filter(run => !isShown(run));
    const runs = runNews(hidden(former.runs), hidden(cluster.runs));
    return [...said, ...runs];
  });
}

function runNews(before: readonly IRun[], after: readonly IRun[]): string[] {
  const says = (run: IRun) => `Run ${run.name}: ${stateWord(run)}`;
  const began = after.filter(run => {
    const former = before.find(one => one.id === run.id);
    return !former || stateWord(former) !== stateWord(run);
  });
  const ended = before.filter(run => !after.some(one => one.id === run.id));
  return [...began.map(says), ...ended.map(run => `Run ${run.name} has ended`)];
}

/** The page's live region; views of runs have their own. */
export class Announcer implements IDisposable {
  constructor(private readonly model: ClustersModel) {
    this.node.className = 'wb-heard';
    this.node.setAttribute('role', 'status');
    this.node.setAttribute('aria-live', 'polite');
    document.body.appendChild(this.node);
    model.changed.connect(this._onChanged, this);
  }

  readonly node = document.createElement('div');

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this.model.changed.disconnect(this._onChanged, this);
    window.clearTimeout(this._timer);
    this.node.remove();
  }

  private _onChanged(): void {
    const { clusters, isReady } = this.model;
    if (isReady) {
      this._pending.push(
        ...news(this._before ?? clusters, clusters, this._isShown)
      );
      this._before = clusters;
    }
    if (this._pending.length && !this._timer) {
      this._say();
    }
  }

  private readonly _isShown = (run: IRun): boolean =>
    viewsInSight(run.id).length > 0;

  /** Announce the collected news; later news waits for a few seconds. */
  private _say(): void {
    this._timer = 0;
    if (this._pending.length) {
      this.node.textContent = this._pending.splice(0).join('. ');
      this._timer = window.setTimeout(() => this._say(), EVERY);
    }
  }

  private _before: readonly ICluster[] | null = null;
  private _isDisposed = false;
  private readonly _pending: string[] = [];
  private _timer = 0;
}
