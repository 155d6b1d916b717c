/**
 * Dialogs that confirm an action or ask for its values.
 */
import { Dialog, InputDialog, showDialog } from '@jupyterlab/apputils';

import type { ClustersModel } from './clusters';
import { hasNodes, MAX_NODES, most, resting, type ISize } from './sizing';
import { whatGoes } from './words';

/** Confirm the deletion of a cluster. */
export async function confirmRemove(
  name: string,
  model: ClustersModel
): Promise<boolean> {
  const cluster = model.cluster(name);
  const runs = (cluster?.runs ?? []).map(run => run.name);
  const stops = runs.length
    ? `Its ranks end, and its unfinished runs are stopped: ${runs.join(', ')}.`
    : 'Its ranks end.';
  const goes = cluster ? whatGoes(cluster) : '';
  const result = await showDialog({
    title: `Delete cluster ${name}?`,
    body: [goes, stops, 'The results of its runs are kept.']
      .filter(Boolean)
      .join(' '),
    buttons: [
      Dialog.cancelButton({ label: 'Cancel' }),
      Dialog.warnButton({ label: 'Delete' })
    ]
  });
  return result.button.accept;
}

/**
 * Confirm a higher price of a cluster.
 *
 * @param sentence - the price in words
 */
export async function confirmPrice(
  name: string,
  sentence: string
): Promise<boolean> {
  const result = await showDialog({
    title: `Start more nodes of cluster ${name}?`,
    body: sentence,
    buttons: [
      Dialog.cancelButton({ label: 'Cancel' }),
      Dialog.okButton({ label: 'Start at that price' })
    ]
  });
  return result.button.accept;
}

/**
 * Ask for a number of ranks or nodes; null when cancelled.
 *
 * @param okLabel - what is done with it, in one word
 */
export async function askSize(
  title: string,
  okLabel: string,
  name: string,
  model: ClustersModel
): Promise<ISize | null> {
  const { bounds } = model;
  const before = resting(model.cluster(name), bounds);
  const isOfNodes = hasNodes(model.cluster(name));
  const label = isOfNodes
    ? `Nodes (0 to ${MAX_NODES})`
    : `Ranks (1 to ${most(before.oversubscribe, bounds)})`;
  const result = await InputDialog.getNumber({
    title,
    okLabel,
    cancelLabel: 'Cancel',
    label,
    value: Number(before.text)
  });
  const number = result.value;
  if (!result.button.accept || number === null) {
    return null;
  }
  return isOfNodes
    ? { nodes: number }
    : { ranks: number, oversubscribe: before.oversubscribe };
}

/** Ask for the name of a new cluster; null when cancelled. */
export async function askName(): Promise<string | null> {
  const result = await InputDialog.getText({
    title: 'New Training Cluster',
    label: 'Name',
    okLabel: 'Start',
    cancelLabel: 'Cancel',
    pattern: '[A-Za-z0-9][A-Za-z0-9_.\\-]{0,39}'
  });
  return result.button.accept ? result.value : null;
}
