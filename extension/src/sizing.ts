/**
 * Decide which buttons of a cluster make sense and what its number box may hold.
 *
 * The rules are those of `workbench/notebook/cluster_panel.py`.
 */
import type { ICluster } from './protocol';

/** How many ranks somebody wants, and whether they may share cores. */
export interface IRanksSize {
  ranks: number;
  oversubscribe: boolean;
}

/** How many nodes somebody wants; 0 keeps the definition and pays nothing. */
export interface INodesSize {
  nodes: number;
}

/** A size that is asked for. */
export type ISize = IRanksSize | INodesSize;

/** What the number box and its checkbox hold while somebody edits them. */
export interface IDraft {
  text: string;
  oversubscribe: boolean;
}

/** How many ranks may be asked for. */
export interface IBounds {
  slots: number;
  max_ranks: number;
}

/** Which buttons make sense. */
export interface IButtons {
  start: boolean;
  resize: boolean;
  stop: boolean;
  remove: boolean;
  extend: boolean;
}

/** The most nodes that may be asked for; the server knows how many hosts were named. */
export const MAX_NODES = 512;

/** Whether a cluster is sized in nodes, and not in ranks of this machine. */
export function hasNodes(cluster: ICluster | null): boolean {
  return cluster !== null && cluster.where !== 'local';
}

/**
 * Which buttons of `cluster` make sense.
 *
 * @param wanted - the number in the box, of ranks or nodes; null when it will not do
 */
export function sensible(cluster: ICluster, wanted: number | null): IButtons {
  const { state, is_wanted } = cluster;
  const isThere = state !== 'down';
  const isSized = ['ready', 'paused', 'resizing'].includes(state);
  // Who waits for capacity may want less of it.
  const isResizable = isSized || (hasNodes(cluster) && state === 'starting');
  const asked = hasNodes(cluster) ? cluster.nodes_asked : cluster.ranks_asked;
  return {
    start:
      wanted !== null && (!is_wanted || state === 'down' || state === 'failed'),
    resize: wanted !== null && is_wanted && isResizable && wanted !== asked,
    stop: cluster.runs.some(run => !run.is_ended && !run.is_stopping),
    remove: is_wanted || (isThere && state !== 'stopping'),
    extend: is_wanted && cluster.expires !== null
  };
}

/** The size to begin with: one rank a slot, and two where there is only one. */
export function suggested({ slots }: IBounds): IRanksSize {
  return { ranks: Math.max(2, slots), oversubscribe: slots < 2 };
}

/** What the box holds while nobody edits it: what was last asked for, else the suggestion. */
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

/** The size that a draft stands for; null when the number will not do. */
export function size(draft: IDraft, bounds: IBounds): IRanksSize | null {
  const text = draft.text.trim();
  const ranks = Number(text);
  const fits =
    /^\d+$/.test(text) &&
    ranks >= 1 &&
    ranks <= most(draft.oversubscribe, bounds);
  return fits ? { ranks, oversubscribe: draft.oversubscribe } : null;
}

/** The number of nodes that a draft stands for; null when it will not do. */
export function nodesSize(draft: IDraft): INodesSize | null {
  const text = draft.text.trim();
  return /^\d{1,4}$/.test(text) && Number(text) <= MAX_NODES
    ? { nodes: Number(text) }
    : null;
}

/** The size that a draft of `cluster` stands for; null when the number will not do. */
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
