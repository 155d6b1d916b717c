/**
 * Dialogs that confirm an action or ask for its values.
 */
import { Dialog, InputDialog, showDialog } from '@jupyterlab/apputils';

import type { ClustersModel, IQuestion } from './clusters';
import { asked } from './question';
import { hasNodes, MAX_NODES, most, resting, type ISize } from './sizing';

/** Ask before something is done. */
export async function confirm(question: IQuestion): Promise<boolean> {
  const { title, yes: label, isWarning } = question;
  const result = await showDialog({
    title,
    body: asked(question),
    buttons: [
      Dialog.cancelButton({ label: 'Cancel' }),
      isWarning ? Dialog.warnButton({ label }) : Dialog.okButton({ label })
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
