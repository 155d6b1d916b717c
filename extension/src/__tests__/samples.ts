/**
 * Clusters and runs to test with.
 */
import type { IApi } from '../clusters';
import type { ICluster, IClusters, IListedRun, IRun } from '../protocol';

/** A run that goes on. */
export function aRun(changes: Partial<IListedRun> = {}): IListedRun {
  return {
    id: '250101-120000-abcd',
    name: 'digits',
    kind: 'cell',
    cluster: 'default',
    state: 'running',
    is_ended: false,
    is_stopping: false,
    ranks: 2,
    generation: 1,
    created: 1000,
    started: 1001,
    ended: 0,
    now: 1010,
    iteration: 420,
    iterations_total: 1000,
    epoch: 0,
    epochs_total: 0,
    fraction: 0.42,
    seconds_left: 12,
    seconds_taken: 9,
    rate: 46,
    failed_rank: -1,
    failed_host: '',
    error: '',
    message: '',
    waiting: '',
    parameters: {},
    arguments: [],
    values: { 'main/loss': 0.5 },
    sparkline: [2, 1, 0.5],
    sparkline_name: 'main/loss',
    ...changes
  };
}

/** A cluster that is ready. */
export function aCluster(changes: Partial<ICluster> = {}): ICluster {
  return {
    name: 'default',
    state: 'ready',
    message: '',
    is_wanted: true,
    ranks_asked: 2,
    ranks_wished: 2,
    ranks_actual: 2,
    nodes_asked: 1,
    nodes_actual: 1,
    oversubscribe: false,
    revision: 1,
    generation: 1,
    updated: 1000,
    where: 'local',
    price: null,
    spent: null,
    expires: null,
    ranks: [],
    runs: [],
    ...changes
  };
}

/** A cluster that nobody wants up. */
export function aDownCluster(changes: Partial<ICluster> = {}): ICluster {
  return aCluster({
    ...{ state: 'down', is_wanted: false, ranks_asked: 0, ranks_actual: 0 },
    ...{ nodes_asked: 0, nodes_actual: 0, ranks_wished: 0 },
    ...changes
  });
}

/** A failed request as `request.ts` throws it. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly isOurs: boolean
  ) {
    super(message);
  }
}

/** A server that holds its clusters here, and refuses what it is told to refuse. */
export class FakeServer implements IApi {
  asked: string[] = [];
  held: ICluster[] = [];
  listed: IListedRun[] = [];
  refusal: Error | null = null;
  /** Answers wait until this is called, when it is set. */
  gate: Promise<void> = Promise.resolve();

  async clusters(): Promise<IClusters> {
    const clusters = this._copy(this.held);
    await this._answer('clusters');
    return { clusters, slots: 4, max_ranks: 64, version: '1' };
  }

  async runs(limit: number): Promise<IListedRun[]> {
    const runs = this._copy(this.listed);
    await this._answer(`runs ${limit}`);
    return runs;
  }

  start(name: string, size: { ranks?: number }): Promise<ICluster> {
    const { ranks = 4 } = size;
    return this._change('start', name, {
      ...{ is_wanted: true, state: 'starting' },
      ...{ ranks_asked: ranks, ranks_wished: ranks }
    });
  }

  resize(name: string, size: { ranks: number }): Promise<ICluster> {
    const asked = { ranks_asked: size.ranks, ranks_wished: size.ranks };
    return this._change('resize', name, asked);
  }

  remove(name: string): Promise<ICluster> {
    return this._change('remove', name, {
      ...{ is_wanted: false, state: 'stopping', ranks_asked: 0 }
    });
  }

  async stopTraining(name: string): Promise<string[]> {
    await this._answer(`stop ${name}`);
    return [];
  }

  async stopRun(id: string): Promise<IRun> {
    await this._answer(`stop run ${id}`);
    return aRun({ id });
  }

  private async _change(
    how: string,
    name: string,
    changes: Partial<ICluster>
  ): Promise<ICluster> {
    await this._answer(`${how} ${name}`);
    const before =
      this.held.find(one => one.name === name) ?? aCluster({ name });
    const after = { ...before, ...changes, revision: before.revision + 1 };
    this.held = [...this.held.filter(one => one.name !== name), after];
    return after;
  }

  private async _answer(what: string): Promise<void> {
    this.asked.push(what);
    await this.gate;
    if (this.refusal) {
      throw this.refusal;
    }
  }

  private _copy<T>(value: T): T {
    return JSON.parse(JSON.stringify(value));
  }
}
