/**
 * List the clusters in JupyterLab's Running panel: what holds memory, or costs money, now.
 */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import {
  IRunningSessionManagers,
  type IRunningSessions
} from '@jupyterlab/running';
import { ITranslator } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';

import { clustersIcon } from './icons';
import type { ICluster } from './protocol';
import type { ITrans } from './run/trans';
import { CommandIDs, DOMAIN, IWorkbench } from './tokens';
import { alive, clusterWord, price, ranksWord } from './words';

/** Return what the Running panel asks of us. */
export function runningClusters(
  workbench: IWorkbench,
  commands: CommandRegistry,
  trans: ITrans
): IRunningSessions.IManager {
  const { clusters: model } = workbench;
  const stateOf = (cluster: ICluster) => clusterWord(cluster.state, trans);
  const item = (cluster: ICluster): IRunningSessions.IRunningItem => ({
    icon: () => clustersIcon,
    label: () => cluster.name,
    labelTitle: () => {
      const { ranks_actual: actual, ranks_asked: asked } = cluster;
      const ranks = ranksWord(actual, asked, trans);
      const cost = price(cluster, trans);
      return cost
        ? trans.__('%1, %2, price: %3', stateOf(cluster), ranks, cost)
        : trans.__('%1, %2', stateOf(cluster), ranks);
    },
    detail: () =>
      cluster.state === 'ready'
        ? trans._n('%1 rank', '%1 ranks', cluster.ranks_actual)
        : stateOf(cluster),
    open: () => void commands.execute(CommandIDs.openPanel),
    shutdown: () =>
      void commands.execute(CommandIDs.remove, { cluster: cluster.name })
  });
  return {
    name: trans.__('Training clusters'),
    running: () => alive(model.clusters).map(item),
    refreshRunning: () => void model.refresh(),
    runningChanged: model.turned,
    shutdownLabel: trans.__('Delete cluster'),
    shutdownAllLabel: trans.__('Shut Down All'),
    shutdownAllConfirmationText: trans.__(
      'Delete all training clusters with their ranks and nodes? Unfinished runs are stopped.'
    ),
    shutdownAll: () => {
      for (const cluster of alive(model.clusters)) {
        void model.remove(cluster.name);
      }
    }
  };
}

export const runningPlugin: JupyterFrontEndPlugin<void> = {
  id: 'workbench-lab:running',
  description: 'Lists training clusters among what is running.',
  autoStart: true,
  requires: [IWorkbench, ITranslator],
  optional: [IRunningSessionManagers],
  activate: (
    app,
    workbench: IWorkbench,
    translator: ITranslator,
    managers: IRunningSessionManagers | null
  ) => {
    managers?.add(
      runningClusters(workbench, app.commands, translator.load(DOMAIN))
    );
  }
};
