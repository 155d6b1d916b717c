import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { Signal } from '@lumino/signaling';

import schema from '../../schema/clusters.json';
import { DEFAULTS, Preferences, styleOf } from '../preferences';

/** Settings that a test may change. */
class FakeSettings {
  constructor(public composite: object) {}
  readonly changed = new Signal<this, void>(this);
  asSettings = () => this as unknown as ISettingRegistry.ISettings;
}

describe('Preferences', () => {
  it('begin with what the schema says', () => {
    const defaults = Object.entries(schema.properties).map(
      ([name, property]) => [name, property.default]
    );

    expect(Object.fromEntries(defaults)).toEqual(DEFAULTS);
  });

  it('follow what is set, and say so only when it is something else', () => {
    const preferences = new Preferences();
    let signals = 0;
    preferences.changed.connect(() => (signals += 1));
    const settings = new FakeSettings({ pollInterval: 5 });
    preferences.follow(settings.asSettings());
    settings.changed.emit();

    expect(preferences.values.pollInterval).toBe(5);
    expect(preferences.values.confirmDelete).toBe(true);
    expect(signals).toBe(1);
  });

  it('do not take what has the wrong type', () => {
    const preferences = new Preferences();
    preferences.follow(new FakeSettings({ recentRuns: 'many' }).asSettings());

    expect(preferences.values).toEqual(DEFAULTS);
  });

  it('say how curves are drawn', () => {
    expect(styleOf({ ...DEFAULTS, logScale: true, smoothing: 0.5 })).toEqual({
      log: true,
      smoothing: 0.5
    });
  });
});
