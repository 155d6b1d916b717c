/**
 * The requests about clusters: the same to the server over REST, and to a kernel in messages.
 */
import type {
  ICluster,
  IClusters,
  IEstimate,
  IForm,
  IFormRequest,
  IHosts,
  IKeys,
  IKeysRequest,
  IListedRun,
  IProof,
  IRun,
  IRuns,
  ISizeRequest,
  IStopped,
  ISweep,
  ISweeps
} from './protocol';

/** What goes with a request: the values of its URL, or its body. */
export interface IAsking {
  query?: { [name: string]: string | number | null | undefined };
  body?: unknown;
}

/** Sends one request, and returns its answer; `path` is below that of the routes. */
export type Ask = <T>(
  method: string,
  path: string[],
  asking?: IAsking
) => Promise<T>;

/** The operations on clusters. */
export interface IApi {
  clusters(): Promise<IClusters>;
  runs(limit: number): Promise<IListedRun[]>;
  sweeps(): Promise<ISweeps>;
  sweep(id: string): Promise<ISweep>;
  /** @param size - the server's own where none is given */
  start(name: string, size?: ISizeRequest): Promise<ICluster>;
  resize(name: string, size: ISizeRequest): Promise<ICluster>;
  remove(name: string): Promise<ICluster>;
  /** Take a deleted cluster off the list. */
  forget(name: string): Promise<unknown>;
  extend(name: string, seconds: number): Promise<ICluster>;
  /** Keep the nodes of one that has nothing to do. */
  keep(name: string): Promise<ICluster>;
  /** Measure its links; returns the run that does it. */
  measure(name: string): Promise<IRun>;
  /** Ask its unfinished runs to stop, and return their names. */
  stopTraining(name: string): Promise<string[]>;
  stopRun(id: string): Promise<IRun>;
  /** What may be asked for. */
  form(name: string): Promise<IForm>;
  /** Ask the provider what fits; this takes seconds. */
  offers(name: string, form: IFormRequest): Promise<IEstimate>;
  /** What the values of a form come to, by what is known. */
  estimate(name: string, form: IFormRequest): Promise<IEstimate>;
  /** The keys of hosts that are to be confirmed. */
  keys(name: string, asked: IKeysRequest): Promise<IKeys>;
  /** Read a host file. */
  hosts(path: string): Promise<IHosts>;
  /**
   * What is left of a deleted cluster.
   *
   * @param spent - dollars, as they were seen last
   */
  proof(name: string, spent: number): Promise<IProof>;
}

/** The operations, each by one request. */
export function clusterApi(ask: Ask): IApi {
  const of = (name: string, ...rest: string[]) => ['clusters', name, ...rest];
  return {
    clusters: () => ask('GET', ['clusters']),
    runs: async limit =>
      (await ask<IRuns>('GET', ['runs'], { query: { limit } })).runs,
    sweeps: () => ask('GET', ['sweeps']),
    sweep: id => ask('GET', ['sweeps', id]),
    start: (name, size = {}) => ask('PUT', of(name), { body: size }),
    resize: (name, size) => ask('PATCH', of(name), { body: size }),
    remove: name => ask('DELETE', of(name)),
    forget: name => ask('POST', of(name, 'remove')),
    extend: (name, seconds) =>
      ask('POST', of(name, 'extend'), { body: { seconds } }),
    keep: name => ask('POST', of(name, 'keep')),
    measure: name => ask('POST', of(name, 'measure')),
    stopTraining: async name =>
      (await ask<IStopped>('POST', of(name, 'stop'))).stopped,
    stopRun: id => ask('POST', ['runs', id, 'stop']),
    form: name => ask('GET', of(name, 'form')),
    offers: (name, form) => ask('POST', of(name, 'offers'), { body: form }),
    estimate: (name, form) => ask('POST', of(name, 'estimate'), { body: form }),
    keys: (name, asked) => ask('POST', of(name, 'keys'), { body: asked }),
    hosts: path => ask('POST', ['hosts'], { body: { path } }),
    proof: (name, spent) => ask('POST', of(name, 'proof'), { body: { spent } })
  };
}
