/**
 * The user's settings, with a signal when they change.
 */
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { JSONExt } from '@lumino/coreutils';
import { Signal, type ISignal } from '@lumino/signaling';

import { SMOOTHING, type IStyle } from './run/layout';

/** What a person may set; `schema/clusters.json` describes each. */
export interface IPreferences {
  /** Seconds. */
  pollInterval: number;
  recentRuns: number;
  confirmDelete: boolean;
  saveNotebook: boolean;
  logScale: boolean;
  /** In percent of the iterations in sight; 0 for none. */
  smoothing: number;
}

export const DEFAULTS: IPreferences = {
  pollInterval: 1,
  recentRuns: 20,
  confirmDelete: true,
  saveNotebook: true,
  logScale: false,
  smoothing: SMOOTHING
};

/** What is set at the moment. */
export class Preferences {
  /** Emitted when something was set to another value. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get values(): Readonly<IPreferences> {
    return this._values;
  }

  /** Take over what `settings` says, now and whenever it changes. */
  follow(settings: ISettingRegistry.ISettings): void {
    settings.changed.connect(this._take, this);
    this._take(settings);
  }

  private _take(settings: ISettingRegistry.ISettings): void {
    const found = settings.composite as Partial<IPreferences>;
    const values = { ...DEFAULTS };
    for (const key of Object.keys(DEFAULTS) as (keyof IPreferences)[]) {
      if (typeof found[key] === typeof DEFAULTS[key]) {
        Object.assign(values, { [key]: found[key] });
      }
    }
    if (!JSONExt.deepEqual({ ...values }, { ...this._values })) {
      this._values = values;
      this._changed.emit();
    }
  }

  private readonly _changed = new Signal<this, void>(this);
  private _values: IPreferences = DEFAULTS;
}

/** How curves are drawn at first. */
export function styleOf({ logScale, smoothing }: IPreferences): IStyle {
  return { log: logScale, smoothing };
}
