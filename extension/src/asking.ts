/**
 * Dialogs that confirm an action or ask for its values.
 */
import { Dialog, InputDialog, showDialog } from '@jupyterlab/apputils';

import type { ClustersModel } from './clusters';
import type { ITrans } from './run/trans';
import { hasNodes, MAX_NODES, most, resting, type ISize } from './sizing';
import { whatGoes } from './words';

/** Confirm the deletion of a cluster. */
export async function confirmRemove(
  name: string,
  model: ClustersModel,
  trans: ITrans
): Promise<boolean> {
  const cluster = model.cluster(name);
  const runs = (cluster?.runs ?? []).map(run => run.name);
  const stops = runs.length
    ? trans.__(
        'Its ranks end, and its unfinished runs are stopped: %1.',
        runs.join(', ')
      )
    : trans.__('Its ranks end.');
  const goes = cluster ? whatGoes(cluster, trans) : '';
  const result = await showDialog({
    title: trans.__('Delete cluster %1?', name),
    body: [goes, stops, trans.__('The results of its runs are kept.')]
      .filter(Boolean)
      .join(' '),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.warnButton({ label: trans.__('Delete') })
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
  sentence: string,
  trans: ITrans
): Promise<boolean> {
  const result = await showDialog({
    title: trans.__('Start more nodes of cluster %1?', name),
    body: sentence,
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.okButton({ label: trans.__('Start at that price') })
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
  model: ClustersModel,
  trans: ITrans
): Promise<ISize | null> {
  const { bounds } = model;
  const before = resting(model.cluster(name), bounds);
  const isOfNodes = hasNodes(model.cluster(name));
  const label = isOfNodes
    ? trans.__('Nodes (0 to %1)', MAX_NODES)
    : trans.__('Ranks (1 to %1)', most(before.oversubscribe, bounds));
  const result = await InputDialog.getNumber({
    title,
    okLabel,
    cancelLabel: trans.__('Cancel'),
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
export async function askName(trans: ITrans): Promise<string | null> {
  const result = await InputDialog.getText({
    title: trans.__('New Training Cluster'),
    label: trans.__('Name'),
    okLabel: trans.__('Start'),
    cancelLabel: trans.__('Cancel'),
    pattern: '[A-Za-z0-9][A-Za-z0-9_.\\-]{0,39}'
  });
  return result.button.accept ? result.value : null;
}
