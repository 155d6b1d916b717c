/**
 * Names that several plugins share.
 */
import { Token } from '@lumino/coreutils';

import type { ClustersModel } from './clusters';
import type { Preferences } from './preferences';

/** What the plugins of this extension share. */
export interface IWorkbench {
  readonly clusters: ClustersModel;
  readonly preferences: Preferences;
}

export const IWorkbench = new Token<IWorkbench>(
  'workbench-lab:IWorkbench',
  'The training clusters and runs of this Jupyter server.'
);

/** The cluster that is meant when none is named. */
export const DEFAULT_CLUSTER = 'default';

/** The id of the panel at the left. */
export const PANEL_ID = 'workbench-lab-panel';

export namespace CommandIDs {
  export const openPanel = 'workbench-lab:open-panel';
  export const start = 'workbench-lab:start-cluster';
  export const create = 'workbench-lab:new-cluster';
  export const resize = 'workbench-lab:resize-cluster';
  export const stop = 'workbench-lab:stop-training';
  export const remove = 'workbench-lab:delete-cluster';
  export const measure = 'workbench-lab:measure-bandwidth';
  export const openRun = 'workbench-lab:open-run';
  export const openSweep = 'workbench-lab:open-sweep';
  export const compare = 'workbench-lab:compare-runs';
  export const refresh = 'workbench-lab:refresh';
}
