/**
 * Announce news of clusters and runs to screen readers, at a limited rate.
 */
import type { IDisposable } from '@lumino/disposable';

import type { ClustersModel } from './clusters';
import type { ICluster, IRun } from './protocol';
import { viewsInSight } from './run/announcer';
import { stateWord } from './run/phrases';
import type { ITrans } from './run/trans';
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
  trans: ITrans,
  isShown: (run: IRun) => boolean = () => false
): string[] {
  return after.flatMap(cluster => {
    const former = before.find(one => one.name === cluster.name);
    if (!former) {
      return [];
    }
    const said: string[] = [];
    if (former.state !== cluster.state) {
      const word = clusterWord(cluster.state, trans);
      said.push(
        cluster.state === 'ready'
          ? trans.__(
              'Cluster %1: %2, %3',
              cluster.name,
              word,
              ranksWord(cluster.ranks_actual, cluster.ranks_asked, trans)
            )
          : trans.__('Cluster %1: %2', cluster.name, word)
      );
    }
    const hidden = (runs: IRun[]) => runs.filter(run => !isShown(run));
    const runs = runNews(hidden(former.runs), hidden(cluster.runs), trans);
    return [...said, ...runs];
  });
}

function runNews(
  before: readonly IRun[],
  after: readonly IRun[],
  trans: ITrans
): string[] {
  const says = (run: IRun) =>
    trans.__('Run %1: %2', run.name, stateWord(run, trans));
  const began = after.filter(run => {
    const former = before.find(one => one.id === run.id);
    return !former || stateWord(former, trans) !== stateWord(run, trans);
  });
  const ended = before.filter(run => !after.some(one => one.id === run.id));
  return [
    ...began.map(says),
    ...ended.map(run => trans.__('Run %1 has ended', run.name))
  ];
}

/** The page's live region; views of runs have their own. */
export class Announcer implements IDisposable {
  constructor(
    private readonly model: ClustersModel,
    private readonly trans: ITrans
  ) {
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
        ...news(this._before ?? clusters, clusters, this.trans, this._isShown)
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
