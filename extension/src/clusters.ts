/**
 * The model of clusters and runs: it polls the server, and requests changes.
 *
 * An answer to a request from before an action is dropped, so that it never reverts the action on the screen.
 */
import { JSONExt, type PartialJSONValue } from '@lumino/coreutils';
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';
import { Poll } from '@lumino/polling';
import { Signal, type ISignal } from '@lumino/signaling';

import type { ICluster, IClusters, IListedRun, IRun } from './protocol';
import { hasNodes, type IBounds, type ISize } from './sizing';
import { noServer } from './words';

const SLOWEST = 30_000;

/**
 * After so many answers that differ in nothing but runs' progress, while no view shows runs, looks
 * become rarer by a factor.
 */
const CALM_LOOKS = 10;
const CALM_FACTOR = 4;

/** The server's operations. */
export interface IApi {
  clusters(): Promise<IClusters>;
  runs(limit: number): Promise<IListedRun[]>;
  start(name: string, size?: ISize): Promise<ICluster>;
  /** @param size - with the confirmed price, if there is one */
  resize(name: string, size: ISize & { agreed?: number }): Promise<ICluster>;
  remove(name: string): Promise<ICluster>;
  /** Remove a deleted cluster from the list. */
  forget(name: string): Promise<void>;
  extend(name: string, seconds: number): Promise<ICluster>;
  /** Measure its links; returns the run that does it. */
  measure(name: string): Promise<IRun>;
  stopTraining(name: string): Promise<string[]>;
  stopRun(id: string): Promise<IRun>;
}

/** Why nothing is known at the moment. */
export interface ITrouble {
  /** `absent`: the server runs without our part; `store`: it says what is wrong. */
  kind: 'absent' | 'store' | 'silent';
  sentence: string;
}

/** A failed request, as `request.ts` throws it. */
interface IRefusal {
  status: number;
  message: string;
  isOurs: boolean;
  /** Dollars an hour, where only a yes to them is missing. */
  price?: number;
}

/** The clusters and runs of this Jupyter server. */
export class ClustersModel implements IDisposable {
  constructor(private readonly options: ClustersModel.IOptions) {
    this._interval = options.interval ?? 1000;
    this._poll = new Poll({
      name: 'workbench-lab:clusters',
      auto: options.auto ?? true,
      factory: () => this._fetch(),
      frequency: { interval: this._interval, backoff: true, max: SLOWEST },
      standby: 'when-hidden'
    });
  }

  /** Emitted when something is not what it was. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Emitted before `changed` when something other than a run's progress is not what it was. */
  get turned(): ISignal<this, void> {
    return this._turned;
  }

  get clusters(): readonly ICluster[] {
    return this._found.clusters;
  }

  /** Newest first; empty while no view shows them. */
  get runs(): readonly IListedRun[] {
    return this._runs;
  }

  get bounds(): IBounds {
    return this._found;
  }

  /** Whether the server has answered once. */
  get isReady(): boolean {
    return this._isReady;
  }

  get trouble(): ITrouble | null {
    return this._trouble;
  }

  get isDisposed(): boolean {
    return this._poll.isDisposed;
  }

  dispose(): void {
    this._poll.dispose();
    Signal.clearData(this);
  }

  cluster(name: string): ICluster | null {
    return this.clusters.find(one => one.name === name) ?? null;
  }

  /** What became of the last request about a cluster or run, in a sentence; often nothing. */
  refusal(subject: string): string {
    return this._refusals.get(subject) ?? '';
  }

  isBusy(subject: string): boolean {
    return this._busy.has(subject);
  }

  /** Milliseconds between two looks; half of it while something changes, more while nothing does. */
  set interval(interval: number) {
    this._interval = interval;
    this._poll.frequency = { ...this._poll.frequency, interval };
    void this.refresh();
  }

  /** Keep `runs` up to date until what is returned is disposed of. */
  showRuns(limit: () => number): IDisposable {
    this._limits.add(limit);
    void this.refresh();
    return new DisposableDelegate(() => this._limits.delete(limit));
  }

  /** Look now. */
  async refresh(): Promise<void> {
    await this._poll.refresh();
    await this._poll.tick.catch(() => undefined); // disposed of meanwhile
  }

  /** Bring a cluster up, with the server's own size unless one is given. */
  start(name: string, size?: ISize): Promise<boolean> {
    return this._change(name, () => this.options.api.start(name, size));
  }

  /** Give a cluster another size; what costs more is asked about first. */
  resize(name: string, size: ISize): Promise<boolean> {
    return this._change(name, () => this._resize(name, size));
  }

  remove(name: string): Promise<boolean> {
    return this._change(name, () => this.options.api.remove(name));
  }

  /** Remove a deleted cluster from the list; its runs are kept. */
  forget(name: string): Promise<boolean> {
    return this._act(name, async () => {
      await this.options.api.forget(name);
      const clusters = this.clusters.filter(one => one.name !== name);
      this._found = { ...this._found, clusters };
    });
  }

  /** Extend a cluster's time to live. */
  extend(name: string, seconds: number): Promise<boolean> {
    return this._change(name, () => this.options.api.extend(name, seconds));
  }

  /** Have a cluster's links measured; the run's id, or nothing where that was refused. */
  async measure(name: string): Promise<string> {
    let id = '';
    await this._act(name, async () => {
      ({ id } = await this.options.api.measure(name));
    });
    return id;
  }

  stopTraining(name: string): Promise<boolean> {
    return this._act(name, () => this.options.api.stopTraining(name));
  }

  stopRun(id: string): Promise<boolean> {
    return this._act(id, () => this.options.api.stopRun(id));
  }

  private async _resize(name: string, size: ISize): Promise<ICluster> {
    const { api, agree } = this.options;
    try {
      return await api.resize(name, size);
    } catch (error) {
      const { price, message = '' } = error as Partial<IRefusal>;
      if (price === undefined || !agree || !(await agree(name, message))) {
        throw error;
      }
      return api.resize(name, { ...size, agreed: price });
    }
  }

  private _change(
    name: string,
    ask: () => Promise<ICluster>
  ): Promise<boolean> {
    return this._act(name, async () => {
      const cluster = await ask();
      const others = this.clusters.filter(one => one.name !== name);
      this._found = {
        ...this._found,
        clusters: [...others, cluster].sort((a, b) =>
          a.name < b.name ? -1 : 1
        )
      };
    });
  }

  private async _act(
    subject: string,
    ask: () => Promise<unknown>
  ): Promise<boolean> {
    this._busy.add(subject);
    this._refusals.delete(subject);
    this._emitTurn();
    let sentence = '';
    try {
      await ask();
    } catch (error) {
      sentence = this._troubleOf(error).sentence;
      this._refusals.set(subject, sentence);
    }
    if (this.isDisposed) {
      return false;
    }
    this._actions += 1;
    this._busy.delete(subject);
    this._emitTurn();
    void this.refresh();
    return !sentence;
  }

  private async _fetch(): Promise<void> {
    const { api } = this.options;
    const actions = this._actions;
    const limit = Math.max(0, ...[...this._limits].map(limit => limit()));
    try {
      const [found, runs] = await Promise.all([
        api.clusters(),
        limit ? api.runs(limit) : this._runs
      ]);
      if (actions === this._actions && !this.isDisposed) {
        this._take(found, runs);
      }
    } catch (error) {
      this._despair(this._troubleOf(error));
      throw error; // the poll looks less often then
    }
  }

  private _take(found: IClusters, runs: readonly IListedRun[]): void {
    const isTurn =
      !this._isReady ||
      this._trouble !== null ||
      !isSame(withoutProgress(found), withoutProgress(this._found));
    const isNews =
      isTurn || !isSame(found, this._found) || !isSame(runs, this._runs);
    this._isReady = true;
    this._trouble = null;
    this._found = found;
    this._runs = runs;
    this._calmLooks = isTurn ? 0 : this._calmLooks + 1;
    const interval = this._interval * this._factor();
    this._poll.frequency = { ...this._poll.frequency, interval };
    if (isTurn) {
      this._emitTurn();
    } else if (isNews) {
      this._changed.emit();
    }
  }

  private _emitTurn(): void {
    this._turned.emit();
    this._changed.emit();
  }

  /** How much longer than asked for to wait until the next look. */
  private _factor(): number {
    if (isChanging(this.clusters)) {
      return 0.5;
    }
    const isCalm = this._calmLooks >= CALM_LOOKS && !this._limits.size;
    return isCalm ? CALM_FACTOR : 1;
  }

  private _despair(trouble: ITrouble): void {
    const isNews = this._trouble?.sentence !== trouble.sentence;
    this._trouble = trouble;
    if (isNews && !this.isDisposed) {
      this._emitTurn();
    }
  }

  private _troubleOf(error: unknown): ITrouble {
    const {
      status = 0,
      message = '',
      isOurs = false
    } = error as Partial<IRefusal>;
    if (isOurs) {
      return { kind: 'store', sentence: message };
    }
    if (status === 404) {
      return {
        kind: 'absent',
        sentence: noServer()
      };
    }
    return {
      kind: 'silent',
      sentence: 'The Jupyter server does not answer; trying again.'
    };
  }

  private readonly _poll: Poll<void, unknown>;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _turned = new Signal<this, void>(this);
  private readonly _limits = new Set<() => number>();
  private readonly _busy = new Set<string>();
  private readonly _refusals = new Map<string, string>();
  private _interval: number;
  private _actions = 0;
  private _calmLooks = 0;
  private _isReady = false;
  private _trouble: ITrouble | null = null;
  private _found: IClusters = {
    clusters: [],
    slots: 1,
    usual_ranks: 2,
    max_ranks: 1,
    version: ''
  };
  private _runs: readonly IListedRun[] = [];
}

export namespace ClustersModel {
  export interface IOptions {
    api: IApi;
    /** Asks whether a cluster may cost what a sentence says. */
    agree?: (name: string, sentence: string) => Promise<boolean>;
    /** Milliseconds between two looks. */
    interval?: number;
    /** Whether to look before anybody asks. */
    auto?: boolean;
  }
}

/** Whether a cluster or one of its runs is on the way from one state to another. */
export function isChanging(clusters: readonly ICluster[]): boolean {
  return clusters.some(
    one =>
      ['starting', 'resizing', 'stopping'].includes(one.state) ||
      (!isStill(one.state) && isOtherThanAsked(one)) ||
      one.runs.some(run => run.is_stopping || run.state === 'queued')
  );
}

/** Whether a cluster's state is stable until the next request. */
function isStill(state: ICluster['state']): boolean {
  return state === 'failed' || state === 'paused';
}

/** Whether there are not as many ranks, or nodes, as were asked for. */
function isOtherThanAsked(one: ICluster): boolean {
  return hasNodes(one)
    ? one.nodes_actual !== one.nodes_asked
    : one.ranks_actual !== one.ranks_asked;
}

/** Return an answer with what changes in runs at turns alone: they begin, stop or end. */
function withoutProgress({ clusters, ...bounds }: IClusters): unknown {
  const steady = clusters.map(cluster => ({
    ...{ ...cluster, updated: 0, resizing: !!cluster.resizing },
    runs: cluster.runs.map(run => [run.id, run.state, run.is_stopping])
  }));
  return { ...bounds, clusters: steady };
}

/** Whether two answers differ in nothing but the clock. */
function isSame(one: unknown, other: unknown): boolean {
  return JSONExt.deepEqual(
    withoutClock(one) as PartialJSONValue,
    withoutClock(other) as PartialJSONValue
  );
}

function withoutClock(answer: unknown): unknown {
  if (Array.isArray(answer)) {
    return answer.map(withoutClock);
  }
  if (answer !== null && typeof answer === 'object') {
    const entries = Object.entries(answer).filter(([key]) => key !== 'now');
    return Object.fromEntries(
      entries.map(([key, value]) => [key, withoutClock(value)])
    );
  }
  return answer;
}
