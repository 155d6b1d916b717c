/**
 * Decide which buttons of a cluster can be pressed, and what its number box may hold.
 */
import type { ISizeRequest } from './messages';
import type { ICluster } from './protocol';

/** The desired number of ranks, and whether they may share cores. */
export interface IRanksSize {
  ranks: number;
  oversubscribe: boolean;
}

/** The desired number of nodes; 0 releases them and keeps the cluster's definition. */
export interface INodesSize {
  nodes: number;
}

/** When a run moves to the ranks of another size. */
export type ResizeAt = NonNullable<ISizeRequest['at']>;

/** A size that is asked for. */
export type ISize = (IRanksSize | INodesSize) & { at?: ResizeAt };

/** The values of the number box and its checkbox while they are edited. */
export interface IDraft {
  text: string;
  oversubscribe: boolean;
}

/** How many ranks may be asked for. */
export interface IBounds {
  slots: number;
  usual_ranks: number;
  max_ranks: number;
}

/** Why each button cannot be pressed; empty for one that can. */
export interface IRefusals {
  start: string;
  resize: string;
  stop: string;
  remove: string;
}

/** The most nodes that may be asked for; the server knows how many hosts were named. */
export const MAX_NODES = 512;

/** Whether a cluster is sized in nodes, and not in ranks of this machine. */
export function hasNodes(cluster: ICluster | null): boolean {
  return cluster !== null && cluster.has_nodes;
}

/**
 * Why each button of `cluster` cannot be pressed now.
 *
 * @param wanted - the number in the box, of ranks or nodes; null while it is not a possible one
 */
export function refusals(cluster: ICluster, wanted: number | null): IRefusals {
  const isTraining = cluster.runs.some(
    run => !run.is_ended && !run.is_stopping
  );
  return {
    start: whyNotStart(cluster, wanted),
    resize: whyNotResize(cluster, wanted),
    stop: isTraining ? '' : 'No run is in progress.',
    remove: whyNotRemove(cluster)
  };
}

function whyNotStart(
  { is_wanted, state }: ICluster,
  wanted: number | null
): string {
  if (is_wanted && state !== 'failed') {
    return state === 'starting'
      ? 'The cluster is starting.'
      : 'The cluster is running.';
  }
  if (wanted === null) {
    return 'The number is out of range.';
  }
  return wanted ? '' : 'With 0 nodes there is nothing to start.';
}

function whyNotResize(cluster: ICluster, wanted: number | null): string {
  const { is_wanted, state } = cluster;
  if (!is_wanted) {
    return state === 'stopping'
      ? 'The cluster is being deleted.'
      : 'The cluster is not running.';
  }
  // A cluster that waits for capacity may ask for less of it.
  if (state === 'starting' && !hasNodes(cluster)) {
    return 'The cluster is starting.';
  }
  if (!['ready', 'paused', 'resizing', 'starting'].includes(state)) {
    return 'The cluster is not running.';
  }
  if (wanted === null) {
    return 'The number is out of range.';
  }
  const asked = hasNodes(cluster) ? cluster.nodes_asked : cluster.ranks_asked;
  return wanted === asked ? 'Type another number first.' : '';
}

function whyNotRemove({ is_wanted, state }: ICluster): string {
  if (is_wanted) {
    return '';
  }
  if (state === 'stopping') {
    return 'The cluster is being deleted.';
  }
  return state === 'down' ? 'The cluster is not running.' : '';
}

/** The times at which the run of `cluster` can move; empty where that makes no difference. */
export function moveTimes({ resizing }: ICluster): ResizeAt[] {
  if (!resizing || resizing.step === resizing.end) {
    return [];
  }
  return resizing.epoch ? ['step', 'epoch', 'end'] : ['step', 'end'];
}

/** A cluster that was never asked for. */
export function unborn(name: string): ICluster {
  return {
    name,
    state: 'down',
    message: '',
    is_wanted: false,
    ranks_asked: 0,
    ranks_wished: 0,
    ranks_actual: 0,
    nodes_asked: 0,
    nodes_actual: 0,
    nodes_defined: 0,
    min_nodes: 1,
    max_nodes: 0,
    oversubscribe: false,
    revision: 0,
    generation: 0,
    updated: 0,
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
    measured: null
  };
}

/** Whether nothing of a cluster is wanted or left, so that only its entry in the list is. */
export function isDeleted({ is_wanted, state }: ICluster): boolean {
  return !is_wanted && state === 'down';
}

/** The size to begin with. */
export function suggested({ slots, usual_ranks }: IBounds): IRanksSize {
  return { ranks: usual_ranks, oversubscribe: slots < usual_ranks };
}

/** The value of the box while it is not edited: the last request, else the suggestion. */
export function resting(cluster: ICluster | null, bounds: IBounds): IDraft {
  if (cluster && hasNodes(cluster)) {
    return { text: String(cluster.nodes_defined), oversubscribe: false };
  }
  const first = suggested(bounds);
  return {
    text: String(cluster?.ranks_wished || first.ranks),
    oversubscribe: cluster?.oversubscribe || first.oversubscribe
  };
}

/** The most ranks that may be asked for. */
export function most(oversubscribe: boolean, bounds: IBounds): number {
  return oversubscribe ? bounds.max_ranks : bounds.slots;
}

/** The size that a draft stands for; null when the number is not valid. */
export function size(draft: IDraft, bounds: IBounds): IRanksSize | null {
  const text = draft.text.trim();
  const ranks = Number(text);
  const fits =
    /^\d+$/.test(text) &&
    ranks >= 1 &&
    ranks <= most(draft.oversubscribe, bounds);
  return fits ? { ranks, oversubscribe: draft.oversubscribe } : null;
}

/** The number of nodes that a draft stands for; null when it is not valid. */
export function nodesSize(draft: IDraft): INodesSize | null {
  const text = draft.text.trim();
  return /^\d{1,4}$/.test(text) && Number(text) <= MAX_NODES
    ? { nodes: Number(text) }
    : null;
}

/** The size that a draft of `cluster` stands for; null when the number is not valid. */
export function sizeOf(
  cluster: ICluster | null,
  draft: IDraft,
  bounds: IBounds
): ISize | null {
  return hasNodes(cluster) ? nodesSize(draft) : size(draft, bounds);
}

/** The number in a size. */
export function numberOf(size: ISize | null): number | null {
  return size && ('nodes' in size ? size.nodes : size.ranks);
}
