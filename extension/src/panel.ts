/**
 * The panel at the left: clusters, and below them the recent runs and sweeps.
 */
import {
  ILayoutRestorer,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  addIcon,
  CommandToolbarButton,
  PanelWithToolbar,
  refreshIcon,
  SidePanel
} from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { IDisposable } from '@lumino/disposable';
import type { Message } from '@lumino/messaging';
import type { Widget } from '@lumino/widgets';

import { ClusterList } from './clusterlist';
import { clustersIcon } from './icons';
import { RunList } from './runlist';
import { SweepList } from './sweeps';
import { CommandIDs, IWorkbench, PANEL_ID } from './tokens';

/** Clusters and recent runs. */
export class TrainingPanel extends SidePanel {
  constructor(
    private readonly workbench: IWorkbench,
    commands: CommandRegistry
  ) {
    super();
    this.id = PANEL_ID;
    this.addClass('wb-panel');
    this.title.icon = clustersIcon;
    this.title.caption = 'Training Clusters';
    this.node.tabIndex = -1;
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Training clusters');

    const model = workbench.clusters;
    const open = (id: string) =>
      void commands.execute(CommandIDs.openRun, { id });
    const clusters = new ClusterList(model, {
      remove: cluster => void commands.execute(CommandIDs.remove, { cluster }),
      measure: cluster =>
        void commands.execute(CommandIDs.measure, { cluster }),
      open
    });
    const runs = new RunList(model, {
      open,
      compare: ids => void commands.execute(CommandIDs.compare, { ids })
    });
    const top = section('Clusters', clusters);
    const button = (id: string, icon: typeof addIcon) =>
      new CommandToolbarButton({ commands, id, icon, label: '' });
    top.toolbar.addItem('new', button(CommandIDs.create, addIcon));
    top.toolbar.addItem('refresh', button(CommandIDs.refresh, refreshIcon));
    this.addWidget(top);
    this.addWidget(section('Recent runs', runs));
    const sweeps = new SweepList(
      () => model.sweeps(),
      id => void commands.execute(CommandIDs.openSweep, { id })
    );
    this.addWidget(section('Recent sweeps', sweeps));
  }

  override dispose(): void {
    this._runs?.dispose();
    super.dispose();
  }

  /** The panel takes the focus when it is opened by a key. */
  protected override onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    const first = this.node.querySelector<HTMLElement>('.wb-size input');
    (first ?? this.node).focus();
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._runs ??= this.workbench.clusters.showRuns(
      () => this.workbench.preferences.values.recentRuns
    );
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this._runs?.dispose();
    this._runs = null;
  }

  private _runs: IDisposable | null = null;
}

function section(title: string, content: Widget): PanelWithToolbar {
  const panel = new PanelWithToolbar();
  panel.addClass('wb-section');
  panel.title.label = title;
  panel.toolbar.node.setAttribute('aria-label', `${title} toolbar`);
  panel.addWidget(content);
  return panel;
}

export const panelPlugin: JupyterFrontEndPlugin<void> = {
  id: 'workbench-lab:panel',
  description:
    'Shows training clusters and recent runs in a panel at the left.',
  autoStart: true,
  requires: [IWorkbench],
  optional: [ILayoutRestorer],
  activate: (app, workbench: IWorkbench, restorer: ILayoutRestorer | null) => {
    const panel = new TrainingPanel(workbench, app.commands);
    app.shell.add(panel, 'left', { rank: 550, type: 'Training Clusters' });
    restorer?.add(panel, PANEL_ID);
  }
};
