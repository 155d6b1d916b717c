/**
 * The plugins of this extension. Each does one thing, and none needs JupyterLab's own shell.
 */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

import { Announcer } from './announcer';
import { clusterApi } from './api';
import { confirm } from './asking';
import { ClustersModel } from './clusters';
import { commandsPlugin } from './commands';
import { panelPlugin } from './panel';
import { Preferences } from './preferences';
import { rest } from './request';
import { runningPlugin } from './running';
import { runViewPlugin } from './runview';
import { statusPlugin } from './statusitem';
import { tabsPlugin } from './tabs';
import { IWorkbench } from './tokens';

const clustersPlugin: JupyterFrontEndPlugin<IWorkbench> = {
  id: 'workbench-lab:clusters',
  description:
    'Keeps what the server says of clusters and runs, and the settings.',
  autoStart: true,
  provides: IWorkbench,
  optional: [ISettingRegistry],
  activate: (_app, registry: ISettingRegistry | null) => {
    const preferences = new Preferences();
    const clusters = new ClustersModel({ api: clusterApi(rest()), confirm });
    new Announcer(clusters);
    preferences.changed.connect(() => {
      clusters.interval = 1000 * preferences.values.pollInterval;
    });
    if (registry) {
      registry
        .load(clustersPlugin.id)
        .then(settings => preferences.follow(settings))
        .catch(reason => console.warn('workbench: no settings', reason));
    }
    return { clusters, preferences };
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [
  clustersPlugin,
  runViewPlugin,
  commandsPlugin,
  panelPlugin,
  runningPlugin,
  statusPlugin,
  tabsPlugin
];

export default plugins;
