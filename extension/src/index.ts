/**
 * The plugins of this extension. Each does one thing, and none needs JupyterLab's own shell.
 */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator } from '@jupyterlab/translation';

import { Announcer } from './announcer';
import { confirmPrice } from './asking';
import { ClustersModel, type IApi } from './clusters';
import { commandsPlugin } from './commands';
import { panelPlugin } from './panel';
import { Preferences } from './preferences';
import * as request from './request';
import { runningPlugin } from './running';
import { runViewPlugin } from './runview';
import { translateSchema } from './schematext';
import { statusPlugin } from './statusitem';
import { tabsPlugin } from './tabs';
import { DOMAIN, IWorkbench } from './tokens';

const api: IApi = {
  clusters: request.getClusters,
  runs: limit => request.getRuns({ limit }),
  start: request.startCluster,
  resize: request.resizeCluster,
  remove: request.deleteCluster,
  forget: request.removeCluster,
  extend: request.extendCluster,
  measure: request.measureCluster,
  stopTraining: request.stopCluster,
  stopRun: request.stopRun
};

const clustersPlugin: JupyterFrontEndPlugin<IWorkbench> = {
  id: 'workbench-lab:clusters',
  description:
    'Keeps what the server says of clusters and runs, and the settings.',
  autoStart: true,
  provides: IWorkbench,
  requires: [ITranslator],
  optional: [ISettingRegistry],
  activate: (
    _app,
    translator: ITranslator,
    registry: ISettingRegistry | null
  ) => {
    const trans = translator.load(DOMAIN);
    const preferences = new Preferences();
    const clusters = new ClustersModel({
      api,
      trans,
      agree: (name, sentence) => confirmPrice(name, sentence, trans)
    });
    new Announcer(clusters, trans);
    preferences.changed.connect(() => {
      clusters.interval = 1000 * preferences.values.pollInterval;
    });
    if (registry) {
      registry.transform(clustersPlugin.id, {
        fetch: plugin => ({
          ...plugin,
          schema: translateSchema(plugin.schema, trans._p.bind(trans))
        })
      });
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
