/**
 * Clusters and runs to test with.
 */
import type { IApi } from '../api';
import type {
  ICluster,
  IClusters,
  IEstimate,
  IField,
  IForm,
  IFormRequest,
  IHosts,
  IKey,
  IKeys,
  IKeysRequest,
  IListedRun,
  INode,
  IPlace,
  IProof,
  IRun,
  ISizeRequest,
  ISweep,
  ISweeps
} from '../protocol';

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
    fraction: 0.42,
    seconds_taken: 9,
    failed_rank: -1,
    failed_host: '',
    error: '',
    message: '',
    parameters: {},
    arguments: [],
    word: changes.is_stopping ? 'stopping…' : (changes.state ?? 'running'),
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
    nodes_defined: 1,
    min_nodes: 1,
    max_nodes: 0,
    oversubscribe: false,
    revision: 1,
    generation: 1,
    updated: 1000,
    provider: 'local',
    provider_label: 'this machine',
    has_nodes: false,
    lists_hosts: false,
    price: null,
    spent: null,
    traffic: null,
    budget: null,
    expires: null,
    node_states: {},
    nodes: [],
    purchases: [],
    ranks: [],
    runs: [],
    measured: null,
    ...changes
  };
}

/** A node that carries ranks. */
export function aNode(changes: Partial<INode> = {}): INode {
  return {
    id: 'i-1',
    address: '10.0.0.1',
    type: 'g4dn.xlarge',
    zone: 'us-east-1a',
    state: 'joined',
    failed: false,
    since: 1000,
    slots: 1,
    price: 0.2,
    spent: 0.05,
    traffic: 0,
    head: false,
    message: '',
    ...changes
  };
}

/** A cluster of two pretended nodes, of which one is still to come. */
export function aFleet(changes: Partial<ICluster> = {}): ICluster {
  return aCluster({
    ...{
      provider: 'rehearsal',
      provider_label: 'rehearsal (nothing is bought)'
    },
    ...{ has_nodes: true, ranks_asked: 1, ranks_actual: 1 },
    ...{ nodes_asked: 2, nodes_actual: 1, nodes_defined: 2 },
    ...{ price: 0.4, spent: 0.1, traffic: 0, budget: 2 },
    expires: Date.now() / 1000 + 7200,
    node_states: { booting: 1, joined: 1 },
    nodes: [
      aNode({ head: true }),
      aNode({ id: 'i-2', state: 'booting', message: 'Waits.' })
    ],
    ...changes
  });
}

/** A cluster that nobody wants up. */
export function aDownCluster(changes: Partial<ICluster> = {}): ICluster {
  return aCluster({
    ...{ state: 'down', is_wanted: false, ranks_asked: 0, ranks_actual: 0 },
    ...{ nodes_asked: 0, nodes_actual: 0, ranks_wished: 0 },
    ...changes
  });
}

/** A field of a form. */
export function aField(changes: Partial<IField> = {}): IField {
  return {
    ...{ name: 'gpus', label: 'GPUs per node', hint: '', example: '' },
    ...{ kind: 'whole number', usual: 0, is_folded: false },
    ...changes
  };
}

/** This machine, or another provider. */
export function aPlace(changes: Partial<IPlace> = {}): IPlace {
  return {
    ...{ name: 'local', label: 'this machine', has_nodes: false },
    ...{ lists_hosts: false, fields: [] },
    ...changes
  };
}

/** A failed request as `request.ts` throws it. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly isOurs: boolean,
    readonly price?: number
  ) {
    super(message);
  }
}

/** What a size that was asked for makes of a cluster. */
function asked(size: ISizeRequest = {}): Partial<ICluster> {
  const { ranks, nodes } = { ...size, ...size.form };
  if (typeof nodes === 'number') {
    return { nodes_asked: nodes, nodes_defined: nodes };
  }
  return typeof ranks === 'number'
    ? { ranks_asked: ranks, ranks_wished: ranks }
    : {};
}

/** A server that holds its clusters here, and refuses what it is told to refuse. */
export class FakeServer implements IApi {
  asked: string[] = [];
  held: ICluster[] = [];
  listed: IListedRun[] = [];
  refusal: Error | null = null;
  /** Dollars an hour of every size, to which a person has to say yes. */
  price = 0;
  /** The sizes that were asked for. */
  readonly sizes: ISizeRequest[] = [];
  /** The providers to choose from. */
  places: IPlace[] = [aPlace()];
  /** What was asked for last. */
  last: IFormRequest | null = null;
  /** What any form comes to. */
  estimated: IEstimate = {};
  /** Keys that are not trusted yet. */
  unknown: IKey[] = [];
  /** Answers wait until this is called, when it is set. */
  gate: Promise<void> = Promise.resolve();

  async clusters(): Promise<IClusters> {
    const clusters = this._copy(this.held);
    await this._answer('clusters');
    return { clusters, slots: 4, usual_ranks: 4, max_ranks: 64, version: '1' };
  }

  async runs(limit: number): Promise<IListedRun[]> {
    const runs = this._copy(this.listed);
    await this._answer(`runs ${limit}`);
    return runs;
  }

  /** What the list of sweeps has; each is also one with a table. */
  sweepsHeld: ISweep[] = [];

  async sweeps(): Promise<ISweeps> {
    return { sweeps: this._copy(this.sweepsHeld) };
  }

  async sweep(id: string): Promise<ISweep> {
    return this._copy(this.sweepsHeld.find(one => one.id === id)!);
  }

  start(name: string, size: ISizeRequest = {}): Promise<ICluster> {
    this.sizes.push(size);
    return this._change('start', name, {
      ...{ is_wanted: true, state: 'starting', ranks_asked: 4 },
      ...asked(size)
    });
  }

  resize(name: string, size: ISizeRequest): Promise<ICluster> {
    if (this.price > (size.agreed ?? 0)) {
      const sentence = `It would cost $${this.price}/h.`;
      return Promise.reject(new Refusal(402, sentence, true, this.price));
    }
    this.sizes.push(size);
    return this._change('resize', name, asked(size));
  }

  keep(name: string): Promise<ICluster> {
    return this._change('keep', name, { releases: null });
  }

  extend(name: string, seconds: number): Promise<ICluster> {
    return this._change(`extend ${seconds}`, name, {});
  }

  remove(name: string): Promise<ICluster> {
    return this._change('remove', name, {
      ...{ is_wanted: false, state: 'stopping', ranks_asked: 0 }
    });
  }

  async forget(name: string): Promise<void> {
    await this._answer(`forget ${name}`);
    this.held = this.held.filter(one => one.name !== name);
  }

  async measure(name: string): Promise<IRun> {
    await this._answer(`measure ${name}`);
    return aRun({ kind: 'measurement', fraction: 0 });
  }

  async stopTraining(name: string): Promise<string[]> {
    await this._answer(`stop ${name}`);
    return [];
  }

  async stopRun(id: string): Promise<IRun> {
    await this._answer(`stop run ${id}`);
    return aRun({ id });
  }

  async form(name: string): Promise<IForm> {
    await this._answer(`form ${name}`);
    return { places: this.places, asked: this.last };
  }

  async offers(name: string): Promise<IEstimate> {
    await this._answer(`offers ${name}`);
    return this.estimated;
  }

  async estimate(name: string, form: IFormRequest): Promise<IEstimate> {
    await this._answer(`estimate ${name} ${form.nodes}`);
    return this.estimated;
  }

  async keys(name: string, { trusted = [] }: IKeysRequest): Promise<IKeys> {
    await this._answer(`keys ${name} ${trusted.join()}`);
    return { keys: trusted.length ? [] : this.unknown };
  }

  async hosts(path: string): Promise<IHosts> {
    await this._answer(`hosts ${path}`);
    return { text: 'a\nb slots=2\n', count: 2 };
  }

  async proof(name: string, spent: number): Promise<IProof> {
    await this._answer(`proof ${name} ${spent}`);
    return { sentence: `Nothing of ${name} is left.` };
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
