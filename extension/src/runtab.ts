/**
 * Show one run in a tab of its own.
 */
import { Widget } from '@lumino/widgets';

import { AboutRun } from './aboutrun';
import { runIcon } from './icons';
import { LiveRun } from './live';
import { styleOf, type Preferences } from './preferences';
import * as request from './request';
import { element } from './run/dom';
import type { Aspect, RunModel } from './run/model';
import { RunView } from './run/view';
import { noServer } from './words';

/** One run, live or ended. */
export class RunTab extends Widget {
  constructor(
    readonly run: string,
    private readonly preferences: Preferences
  ) {
    super();
    this.addClass('wb-tab');
    this._live = new LiveRun(run, request);
    const { model, actions } = this._live;
    const style = styleOf(preferences.values);
    this._view = new RunView({ model, actions, style });
    const about = new AboutRun(() => request.about(run));
    this._view.node.append(about.node);
    this.node.append(this._missing, this._view.node);
    this._missing.hidden = true;
    this.title.label = run;
    this.title.icon = runIcon;
    this.title.closable = true;
    model.changed.connect(this._onChanged, this);
    preferences.changed.connect(this._onPreferences, this);
    this._live.start();
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.preferences.changed.disconnect(this._onPreferences, this);
      this._view.dispose();
      this._live.dispose();
      super.dispose();
    }
  }

  private _onChanged({ run, connection }: RunModel, aspect: Aspect): void {
    if (aspect === 'run' && run) {
      this.title.label = run.name;
      this.title.caption = `Run ${run.id} on cluster ${run.cluster}`;
    }
    if (aspect === 'connection') {
      const isMissing = connection === 'unknown' || connection === 'no-server';
      this._missing.hidden = !isMissing;
      this._view.node.hidden = isMissing;
      this._missing.textContent =
        connection === 'unknown'
          ? "This run is not in this machine's store."
          : noServer();
    }
  }

  private _onPreferences(): void {
    this._view.setStyle(styleOf(this.preferences.values));
  }

  private readonly _live: LiveRun;
  private readonly _view: RunView;
  private readonly _missing = element('p', { class: 'wb-empty' });
}
