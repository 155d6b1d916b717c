/**
 * Decide which buttons of a cluster make sense and what its number box may hold.
 *
 * The rules are those of `workbench/notebook/cluster_panel.py`.
 */
import type { ICluster } from './protocol';

/** How many ranks somebody wants, and whether they may share cores. */
export interface ISize {
  ranks: number;
  oversubscribe: boolean;
}

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
}

/**
 * Which buttons of `cluster` make sense.
 *
 * @param ranks - the number in the box; null when it will not do
 */
export function sensible(cluster: ICluster, ranks: number | null): IButtons {
  const { state, is_wanted } = cluster;
  const isThere = state !== 'down';
  const isResizable = is_wanted && (state === 'ready' || state === 'resizing');
  return {
    start:
      ranks !== null && (!is_wanted || state === 'down' || state === 'failed'),
    resize: ranks !== null && isResizable && ranks !== cluster.ranks_asked,
    stop: cluster.runs.some(run => !run.is_ended && !run.is_stopping),
    remove: is_wanted || (isThere && state !== 'stopping')
  };
}

/** The size to begin with: one rank a slot, and two where there is only one. */
export function suggested({ slots }: IBounds): ISize {
  return { ranks: Math.max(2, slots), oversubscribe: slots < 2 };
}

/** What the box holds while nobody edits it: what was last asked for, else the suggestion. */
export function resting(cluster: ICluster | null, bounds: IBounds): IDraft {
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
export function size(draft: IDraft, bounds: IBounds): ISize | null {
  const text = draft.text.trim();
  const ranks = Number(text);
  const fits =
    /^\d+$/.test(text) &&
    ranks >= 1 &&
    ranks <= most(draft.oversubscribe, bounds);
  return fits ? { ranks, oversubscribe: draft.oversubscribe } : null;
}
