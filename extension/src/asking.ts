/**
 * Ask a person before something is done, or for what is needed to do it.
 */
import { Dialog, InputDialog, showDialog } from '@jupyterlab/apputils';

import type { ClustersModel } from './clusters';
import type { ITrans } from './run/trans';
import { most, resting, type ISize } from './sizing';

/** Whether a cluster is really to be deleted. */
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
  const result = await showDialog({
    title: trans.__('Delete cluster %1?', name),
    body: `${stops} ${trans.__('What its runs have reported is kept.')}`,
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.warnButton({ label: trans.__('Delete') })
    ]
  });
  return result.button.accept;
}

/**
 * A number of ranks for a cluster; null when the person thought better of it.
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
  const limit = most(before.oversubscribe, bounds);
  const result = await InputDialog.getNumber({
    title,
    okLabel,
    cancelLabel: trans.__('Cancel'),
    label: trans.__('Ranks (1 to %1)', limit),
    value: Number(before.text)
  });
  const ranks = result.value;
  return result.button.accept && ranks !== null
    ? { ranks, oversubscribe: before.oversubscribe }
    : null;
}

/** The name of a cluster that is to be made; null when the person thought better of it. */
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
