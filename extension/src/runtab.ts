/**
 * Show one run in a tab of its own.
 */
import { Widget } from '@lumino/widgets';

import { Follower } from './follower';
import { runIcon } from './icons';
import { styleOf, type Preferences } from './preferences';
import { getCurves, stopRun } from './request';
import { element } from './run/dom';
import type { Aspect, RunModel } from './run/model';
import type { ITrans } from './run/trans';
import { RunView } from './run/view';

/** One run, as it goes on or as it ended. */
export class RunTab extends Widget {
  constructor(
    readonly run: string,
    private readonly preferences: Preferences,
    private readonly trans: ITrans
  ) {
    super();
    this.addClass('wb-tab');
    const { model, socket } = (this._follower = new Follower(run));
    this._view = new RunView({
      model,
      trans,
      actions: {
        stop: async () =>
          model.applyMessage({ type: 'run', run: await stopRun(run) }),
        curves: (first, last) => getCurves(run, { first, last }),
        output: follows => socket.followOutput(follows)
      },
      style: styleOf(preferences.values)
    });
    this.node.append(this._missing, this._view.node);
    this._missing.hidden = true;
    this._missing.textContent = trans.__(
      "This run is not in this machine's store."
    );
    this.title.label = run;
    this.title.icon = runIcon;
    this.title.closable = true;
    model.changed.connect(this._onChanged, this);
    preferences.changed.connect(this._onPreferences, this);
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.preferences.changed.disconnect(this._onPreferences, this);
      this._view.dispose();
      this._follower.dispose();
      super.dispose();
    }
  }

  private _onChanged({ run, connection }: RunModel, aspect: Aspect): void {
    if (aspect === 'run' && run) {
      this.title.label = run.name;
      this.title.caption = this.trans.__(
        'Run %1 on cluster %2',
        run.id,
        run.cluster
      );
    }
    if (aspect === 'connection') {
      this._missing.hidden = connection !== 'unknown';
      this._view.node.hidden = connection === 'unknown';
    }
  }

  private _onPreferences(): void {
    this._view.setStyle(styleOf(this.preferences.values));
  }

  private readonly _follower: Follower;
  private readonly _view: RunView;
  private readonly _missing = element('p', { class: 'wb-empty' });
}
