/**
 * The panel at the left: clusters, and below them the recent runs.
 */
import {
  ILayoutRestorer,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ITranslator } from '@jupyterlab/translation';
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
import type { ITrans } from './run/trans';
import { RunList } from './runlist';
import { CommandIDs, DOMAIN, IWorkbench, PANEL_ID } from './tokens';

/** Clusters and recent runs. */
export class TrainingPanel extends SidePanel {
  constructor(
    private readonly workbench: IWorkbench,
    commands: CommandRegistry,
    translator: ITranslator
  ) {
    super({ translator });
    const trans = translator.load(DOMAIN);
    this.id = PANEL_ID;
    this.addClass('wb-panel');
    this.title.icon = clustersIcon;
    this.title.caption = trans.__('Training Clusters');
    this.node.tabIndex = -1;
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('Training clusters'));

    const model = workbench.clusters;
    const open = (id: string) =>
      void commands.execute(CommandIDs.openRun, { id });
    const clusters = new ClusterList(model, trans, {
      remove: cluster => void commands.execute(CommandIDs.remove, { cluster }),
      measure: cluster =>
        void commands.execute(CommandIDs.measure, { cluster }),
      open
    });
    const runs = new RunList(model, trans, {
      open,
      compare: ids => void commands.execute(CommandIDs.compare, { ids })
    });
    const top = section(trans.__('Clusters'), clusters, trans);
    const button = (id: string, icon: typeof addIcon) =>
      new CommandToolbarButton({ commands, id, icon, label: '' });
    top.toolbar.addItem('new', button(CommandIDs.create, addIcon));
    top.toolbar.addItem('refresh', button(CommandIDs.refresh, refreshIcon));
    this.addWidget(top);
    this.addWidget(section(trans.__('Recent runs'), runs, trans));
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

function section(
  title: string,
  content: Widget,
  trans: ITrans
): PanelWithToolbar {
  const panel = new PanelWithToolbar();
  panel.addClass('wb-section');
  panel.title.label = title;
  panel.toolbar.node.setAttribute('aria-label', trans.__('%1 toolbar', title));
  panel.addWidget(content);
  return panel;
}

export const panelPlugin: JupyterFrontEndPlugin<void> = {
  id: 'workbench-lab:panel',
  description:
    'Shows training clusters and recent runs in a panel at the left.',
  autoStart: true,
  requires: [IWorkbench, ITranslator],
  optional: [ILayoutRestorer],
  activate: (
    app,
    workbench: IWorkbench,
    translator: ITranslator,
    restorer: ILayoutRestorer | null
  ) => {
    const panel = new TrainingPanel(workbench, app.commands, translator);
    app.shell.add(panel, 'left', { rank: 550, type: 'Training Clusters' });
    restorer?.add(panel, PANEL_ID);
  }
};
