/**
 * Say in the status bar how many ranks there are, and how far the training is.
 */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';

import { clustersIcon } from './icons';
import { CommandIDs, IWorkbench } from './tokens';
import { alive, statusText } from './words';

/** The item of the status bar. */
export class StatusItem extends ReactWidget {
  constructor(
    private readonly workbench: IWorkbench,
    private readonly open: () => void
  ) {
    super();
    this.addClass('wb-statusitem');
    this.addClass('jp-mod-highlighted');
    workbench.clusters.changed.connect(this.update, this);
  }

  protected override render(): JSX.Element {
    const { clusters } = this.workbench.clusters;
    const text = statusText(clusters);
    const isQuiet = !alive(clusters).length;
    return (
      <button
        type="button"
        className={isQuiet ? 'wb-mod-quiet' : ''}
        title={'Open the panel of training clusters'}
        onClick={this.open}
      >
        <clustersIcon.react tag="span" width="14px" height="14px" />
        <span className="jp-StatusBar-TextItem">{text}</span>
      </button>
    );
  }
}

export const statusPlugin: JupyterFrontEndPlugin<void> = {
  id: 'workbench-lab:status',
  description: 'Shows ranks and training in the status bar.',
  autoStart: true,
  requires: [IWorkbench],
  optional: [IStatusBar],
  activate: (app, workbench: IWorkbench, bar: IStatusBar | null) => {
    const model = workbench.clusters;
    bar?.registerStatusItem('workbench-lab:status', {
      item: new StatusItem(
        workbench,
        () => void app.commands.execute(CommandIDs.openPanel)
      ),
      align: 'left',
      rank: 10,
      isActive: () => model.isReady && model.trouble?.kind !== 'absent',
      activeStateChanged: model.changed
    });
  }
};
