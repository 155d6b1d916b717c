/**
 * The commands for clusters and runs, for palette, menus and shortcuts.
 */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette, Notification } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import {
  addIcon,
  deleteIcon,
  refreshIcon,
  runIcon,
  stopIcon
} from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { askName, askSize, confirm } from './asking';
import type { ClustersModel } from './clusters';
import { clustersIcon, measureIcon, resizeIcon } from './icons';
import { removal } from './question';
import type { ISize } from './sizing';
import { CommandIDs, DEFAULT_CLUSTER, IWorkbench, PANEL_ID } from './tokens';
import { alive, canMeasure } from './words';

type Arguments = ReadonlyPartialJSONObject;
type Property = { type: string; description: string; minimum?: number };

/** Commands about clusters. */
export class ClusterCommands {
  constructor(private readonly workbench: IWorkbench) {}

  /** Add the commands that ask the server for something. */
  addTo(commands: CommandRegistry): void {
    const model = this._model;
    const anywhere = { isEnabled: () => model.isReady && !model.trouble };
    commands.addCommand(CommandIDs.start, {
      label: 'Start Training Cluster…',
      caption: 'Start ranks that train together',
      icon: runIcon,
      describedBy: {
        args: this._arguments({
          ...this._clusterArgument(),
          ...this._sizeArguments()
        })
      },
      isEnabled: args => anywhere.isEnabled() && this._canStart(nameIn(args)),
      execute: args => this._start(nameIn(args), args)
    });
    commands.addCommand(CommandIDs.create, {
      label: 'New Training Cluster…',
      caption: 'Start another training cluster with a new name',
      icon: addIcon,
      describedBy: { args: this._arguments({ ...this._clusterArgument() }) },
      ...anywhere,
      execute: args => this._create(args.cluster ? nameIn(args) : null)
    });
    commands.addCommand(CommandIDs.resize, {
      label: 'Resize Training Cluster…',
      caption: 'Change the number of ranks or nodes of a training cluster',
      icon: resizeIcon,
      describedBy: {
        args: this._arguments({
          ...this._clusterArgument(),
          ...this._sizeArguments()
        })
      },
      isEnabled: args => model.cluster(this._named(args))?.is_wanted ?? false,
      execute: args => this._resize(this._named(args), args)
    });
    commands.addCommand(CommandIDs.measure, {
      label: 'Measure Bandwidth',
      caption: 'Measure the links between the nodes of a training cluster',
      icon: measureIcon,
      describedBy: { args: this._arguments(this._clusterArgument()) },
      isEnabled: args => canMeasure(model.cluster(this._named(args))),
      execute: args => this._measure(this._named(args), commands)
    });
    commands.addCommand(CommandIDs.stop, {
      label: 'Stop Training',
      caption: 'Stop the unfinished runs of a training cluster',
      icon: stopIcon,
      describedBy: { args: this._arguments(this._clusterArgument()) },
      isEnabled: args => this._training(args).length > 0,
      execute: args => this._stop(args)
    });
    commands.addCommand(CommandIDs.remove, {
      label: 'Delete Training Cluster…',
      caption: 'Delete a training cluster with its ranks and nodes',
      icon: deleteIcon,
      describedBy: { args: this._arguments(this._clusterArgument()) },
      isEnabled: args =>
        alive(model.clusters).some(one => one.name === this._named(args)),
      execute: args => this._remove(this._named(args))
    });
    commands.addCommand(CommandIDs.refresh, {
      label: 'Refresh Training Clusters',
      caption: 'Fetch the current state now',
      icon: refreshIcon,
      describedBy: { args: this._arguments({}) },
      execute: () => model.refresh()
    });
  }

  private get _model(): ClustersModel {
    return this.workbench.clusters;
  }

  /** The cluster that `args` names, else the only one there is. */
  private _named(args: Arguments): string {
    const there = alive(this._model.clusters);
    return args.cluster || there.length !== 1 ? nameIn(args) : there[0].name;
  }

  private _canStart(name: string): boolean {
    const cluster = this._model.cluster(name);
    return !cluster?.is_wanted || ['down', 'failed'].includes(cluster.state);
  }

  /** The clusters that train, or the one that `args` names. */
  private _training(args: Arguments): string[] {
    return this._model.clusters
      .filter(one => !args.cluster || one.name === args.cluster)
      .filter(one => one.runs.some(run => !run.is_ended && !run.is_stopping))
      .map(one => one.name);
  }

  private async _start(name: string, args: Arguments): Promise<void> {
    const title = 'Start Training Cluster';
    const size = await this._size(title, 'Start', name, args);
    if (size) {
      await this._tell(name, this._model.start(name, size));
    }
  }

  private async _create(given: string | null): Promise<void> {
    const name = given ?? (await askName());
    if (name) {
      await this._tell(name, this._model.start(name));
    }
  }

  private async _resize(name: string, args: Arguments): Promise<void> {
    const title = 'Resize Training Cluster';
    const size = await this._size(title, 'Resize', name, args);
    if (size) {
      await this._tell(name, this._model.resize(name, size));
    }
  }

  /** The size in `args`, else the one that the person says. */
  private async _size(
    title: string,
    okLabel: string,
    name: string,
    args: Arguments
  ): Promise<ISize | null> {
    return sizeIn(args) ?? (await askSize(title, okLabel, name, this._model));
  }

  /** Have a cluster measured, and show how that goes. */
  private async _measure(
    name: string,
    commands: CommandRegistry
  ): Promise<void> {
    const id = await this._model.measure(name);
    await this._tell(name, Promise.resolve(!!id));
    if (id) {
      await commands.execute(CommandIDs.openRun, { id });
    }
  }

  private async _stop(args: Arguments): Promise<void> {
    for (const name of this._training(args)) {
      await this._tell(name, this._model.stopTraining(name));
    }
  }

  private async _remove(name: string): Promise<void> {
    if (this.workbench.preferences.values.confirmDelete) {
      await this._model.refresh();
      if (!(await confirm(removal(name, this._model.cluster(name))))) {
        return;
      }
    }
    await this._tell(name, this._model.remove(name));
  }

  /** Show why it was refused, also without the panel. */
  private async _tell(name: string, request: Promise<boolean>): Promise<void> {
    if (!(await request)) {
      Notification.error(this._model.refusal(name), { autoClose: 10_000 });
    }
  }

  private _arguments(properties: { [name: string]: Property }) {
    return { type: 'object', properties };
  }

  private _clusterArgument(): { [name: string]: Property } {
    return {
      cluster: {
        type: 'string',
        description: 'The name of the cluster'
      }
    };
  }

  private _sizeArguments(): { [name: string]: Property } {
    return {
      ranks: {
        type: 'integer',
        minimum: 1,
        description: 'Number of ranks'
      },
      oversubscribe: {
        type: 'boolean',
        description: 'Whether ranks may share cores'
      },
      nodes: {
        type: 'integer',
        minimum: 0,
        description: 'Number of nodes, instead of ranks'
      }
    };
  }
}

function nameIn(args: Arguments): string {
  return typeof args.cluster === 'string' && args.cluster
    ? args.cluster
    : DEFAULT_CLUSTER;
}

function sizeIn(args: Arguments): ISize | null {
  if (typeof args.nodes === 'number') {
    return { nodes: args.nodes };
  }
  return typeof args.ranks === 'number'
    ? { ranks: args.ranks, oversubscribe: args.oversubscribe === true }
    : null;
}

function addOpenPanel(app: JupyterFrontEnd): void {
  app.commands.addCommand(CommandIDs.openPanel, {
    label: 'Training Clusters',
    caption: 'Show training clusters and recent runs',
    icon: clustersIcon,
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () => app.shell.activateById(PANEL_ID)
  });
}

export const commandsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'workbench-lab:commands',
  description:
    'Commands about training clusters: palette, launcher, menus, keys.',
  autoStart: true,
  requires: [IWorkbench],
  optional: [ICommandPalette, ILauncher],
  activate: (
    app,
    workbench: IWorkbench,
    palette: ICommandPalette | null,
    launcher: ILauncher | null
  ) => {
    addOpenPanel(app);
    new ClusterCommands(workbench).addTo(app.commands);
    // Named: else each toolbar of the page is drawn again.
    workbench.clusters.turned.connect(() =>
      Object.values(CommandIDs)
        .filter(id => app.commands.hasCommand(id))
        .forEach(id => app.commands.notifyCommandChanged(id))
    );
    for (const command of Object.values(CommandIDs)) {
      palette?.addItem({ command, category: 'Training' });
    }
    launcher?.add({
      command: CommandIDs.openPanel,
      // The launcher shows one section a name, so it has to be JupyterLab's own word.
      category: 'Other',
      rank: 10
    });
  }
};
