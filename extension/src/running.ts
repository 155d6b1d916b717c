/**
 * List the clusters in JupyterLab's Running panel: what holds memory, or costs money, now.
 */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import {
  IRunningSessionManagers,
  type IRunningSessions
} from '@jupyterlab/running';
import type { CommandRegistry } from '@lumino/commands';

import { clustersIcon } from './icons';
import { count } from './run/numbers';
import type { ICluster } from './protocol';
import { CommandIDs, IWorkbench } from './tokens';
import { alive, clusterWord, price, ranksWord } from './words';

/** Return what the Running panel asks of us. */
export function runningClusters(
  workbench: IWorkbench,
  commands: CommandRegistry
): IRunningSessions.IManager {
  const { clusters: model } = workbench;
  const stateOf = (cluster: ICluster) => clusterWord(cluster.state);
  const item = (cluster: ICluster): IRunningSessions.IRunningItem => ({
    icon: () => clustersIcon,
    label: () => cluster.name,
    labelTitle: () => {
      const { ranks_actual: actual, ranks_asked: asked } = cluster;
      const ranks = ranksWord(actual, asked);
      const cost = price(cluster);
      return cost
        ? `${stateOf(cluster)}, ${ranks}, price: ${cost}`
        : `${stateOf(cluster)}, ${ranks}`;
    },
    detail: () =>
      cluster.state === 'ready'
        ? count(cluster.ranks_actual, 'rank')
        : stateOf(cluster),
    open: () => void commands.execute(CommandIDs.openPanel),
    shutdown: () =>
      void commands.execute(CommandIDs.remove, { cluster: cluster.name })
  });
  return {
    name: 'Training clusters',
    running: () => alive(model.clusters).map(item),
    refreshRunning: () => void model.refresh(),
    runningChanged: model.turned,
    shutdownLabel: 'Delete cluster',
    shutdownAllLabel: 'Shut Down All',
    shutdownAllConfirmationText:
      'Delete all training clusters with their ranks and nodes? Unfinished runs are stopped.',
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
  requires: [IWorkbench],
  optional: [IRunningSessionManagers],
  activate: (
    app,
    workbench: IWorkbench,
    managers: IRunningSessionManagers | null
  ) => {
    managers?.add(runningClusters(workbench, app.commands));
  }
};
