/**
 * The model of clusters and runs: it polls the server, and requests changes.
 *
 * An answer to a request from before an action is dropped, so that it never reverts the action on the screen.
 */
import { JSONExt, type PartialJSONValue } from '@lumino/coreutils';
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';
import { Poll } from '@lumino/polling';
import { Signal, type ISignal } from '@lumino/signaling';

import type { IApi } from './api';
import type {
  ICluster,
  IClusters,
  IEstimate,
  IForm,
  IFormRequest,
  IHosts,
  IKey,
  IListedRun,
  ISizeRequest,
  ISweep,
  ISweeps
} from './protocol';
import { hasNodes, type IBounds, type ISize } from './sizing';
import { count } from './run/numbers';
import { noServer } from './words';

const SLOWEST = 30_000;

/**
 * After so many answers that differ in nothing but runs' progress, while no view shows runs, looks
 * become rarer by a factor.
 */
const CALM_LOOKS = 10;
const CALM_FACTOR = 4;

/** What a person is asked before something is done. */
export interface IQuestion {
  cluster: string;
  title: string;
  sentence: string;
  /** The keys to compare. */
  keys?: readonly IKey[];
  /** The label of the button that agrees. */
  yes: string;
  isWarning?: boolean;
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

/** What the person refused. */
class Refused extends Error {
  readonly isOurs = true;
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

  /** What was done about a cluster, or is being done, in a sentence; often nothing. */
  said(subject: string): string {
    return this._said.get(subject) ?? '';
  }

  /** Let go of what was said about a cluster. */
  clear(name: string): void {
    this._refusals.delete(name);
    this._say(name, '');
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
    const { api } = this.options;
    return this._change(name, () =>
      this._agreed(name, size, wanted => api.resize(name, wanted))
    );
  }

  /**
   * Start the nodes of a form, after a yes to unknown keys of its hosts.
   *
   * @param price - dollars an hour that the person has seen
   */
  startNodes(
    name: string,
    form: IFormRequest,
    price: number | null
  ): Promise<boolean> {
    const { api } = this.options;
    const wanted = { form, ...(price ? { agreed: price } : {}) };
    return this._change(name, async () => {
      if (form.hosts) {
        await this._confirmKeys(name, form);
      }
      return this._agreed(name, wanted, size => api.start(name, size));
    });
  }

  /** What may be asked for a cluster that is not up. */
  form(name: string): Promise<IForm> {
    return this.options.api.form(name);
  }

  /** What the values of a form come to; why that is not known, if it is not. */
  async estimate(name: string, form: IFormRequest): Promise<IEstimate> {
    try {
      return await this.options.api.estimate(name, form);
    } catch (error) {
      return { refusal: this._troubleOf(error).sentence };
    }
  }

  /** Ask the provider what fits; nothing where it refuses. */
  async findOffers(
    name: string,
    form: IFormRequest
  ): Promise<IEstimate | null> {
    let found: IEstimate | null = null;
    this._say(name, 'Fetching prices, and checking quota and permissions…');
    await this._act(name, async () => {
      found = await this.options.api.offers(name, form);
      const { refusal, says = '' } = found as IEstimate;
      const done = 'Nothing has been bought yet; buy these nodes with Start.';
      this._say(name, refusal ? says : done);
    });
    return found;
  }

  /** Read a host file of the machine where the cluster is started. */
  async readHosts(name: string, path: string): Promise<IHosts | null> {
    let found: IHosts | null = null;
    await this._act(name, async () => {
      found = await this.options.api.hosts(path);
      this._say(name, `${count((found as IHosts).count, 'host')} read.`);
    });
    return found;
  }

  /** Delete a cluster; once it is down, say what is left of its nodes. */
  async remove(name: string): Promise<boolean> {
    const before = this.cluster(name);
    const isDone = await this._change(name, () =>
      this.options.api.remove(name)
    );
    if (isDone && hasNodes(before)) {
      this._unproved.set(name, before?.spent ?? 0);
    }
    return isDone;
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

  /** Keep the nodes of a cluster that has nothing to do. */
  keep(name: string): Promise<boolean> {
    return this._change(name, () => this.options.api.keep(name));
  }

  /** The newest sweeps first. */
  sweeps(): Promise<ISweeps> {
    return this.options.api.sweeps();
  }

  /** One sweep, with its trials and their picture. */
  sweep(id: string): Promise<ISweep> {
    return this.options.api.sweep(id);
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

  /** Send a size; where only a yes to its price is missing, ask for that. */
  private async _agreed<T extends ISizeRequest>(
    cluster: string,
    size: T,
    send: (size: T) => Promise<ICluster>
  ): Promise<ICluster> {
    try {
      return await send(size);
    } catch (error) {
      const { price, message = '' } = error as Partial<IRefusal>;
      const title = `Start more nodes of cluster ${cluster}?`;
      const yes = 'Start at that price';
      const question = { cluster, title, sentence: message, yes };
      if (price === undefined || !(await this._confirm(question))) {
        throw error;
      }
      return send({ ...size, agreed: price });
    }
  }

  /** Show keys of hosts that are not trusted until all are. */
  private async _confirmKeys(
    cluster: string,
    form: IFormRequest
  ): Promise<void> {
    const { api } = this.options;
    let trusted: string[] = [];
    for (;;) {
      this._say(cluster, 'Fetching the keys of the hosts…');
      const { keys } = await api.keys(cluster, { form, trusted });
      this._say(cluster, '');
      if (!keys.length) {
        return;
      }
      const sentence =
        'These host keys are not trusted yet. Compare the fingerprints: on each host, `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` prints it.';
      const title = `Trust ${count(keys.length, 'host key')}?`;
      const question = { cluster, title, sentence, keys };
      if (!(await this._confirm({ ...question, yes: 'Trust these keys' }))) {
        throw new Refused('Nothing was started, and no key is trusted.');
      }
      trusted = keys.map(key => key.line);
    }
  }

  private async _confirm(question: IQuestion): Promise<boolean> {
    return (await this.options.confirm?.(question)) ?? false;
  }

  private _say(subject: string, sentence: string): void {
    this._said.set(subject, sentence);
    this._emitTurn();
  }

  /** Tell what is left of deleted clusters that are down now. */
  private _prove(): void {
    for (const [name, before] of this._unproved) {
      const { is_wanted: isUp, state, spent } = this.cluster(name) ?? {};
      const most = Math.max(before, spent ?? 0); // of gone nodes it is forgotten
      this._unproved.set(name, most);
      if (isUp || state === 'down') {
        this._unproved.delete(name);
      }
      if (!isUp && state === 'down') {
        this._say(name, 'Checking that nothing is left…');
        void this._act(name, async () => {
          this._say(name, (await this.options.api.proof(name, most)).sentence);
        });
      }
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
    const before = this._said.get(subject);
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
    if (sentence || this._said.get(subject) === before) {
      this._said.delete(subject);
    }
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
    this._prove();
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
  private readonly _said = new Map<string, string>();
  /** Clusters that are being deleted, with the dollars that they cost. */
  private readonly _unproved = new Map<string, number>();
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
    /** Asks a person before something is done. */
    confirm?: (question: IQuestion) => Promise<boolean>;
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
