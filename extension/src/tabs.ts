/**
 * Open runs and comparisons in the main area, and open them again after a reload.
 */
import {
  ILabShell,
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  InputDialog,
  MainAreaWidget,
  WidgetTracker
} from '@jupyterlab/apputils';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import type { Widget } from '@lumino/widgets';

import { CompareTab } from './compare';
import { MOST_COMPARED } from './comparecharts';
import { compareIcon, runIcon } from './icons';
import { getRuns } from './request';
import { RunTab } from './runtab';
import { SweepTab } from './sweeps';
import { CommandIDs, IWorkbench } from './tokens';
import { moment } from './words';

type Arguments = ReadonlyPartialJSONObject;

/** Opens what takes a tab of its own; each only once. */
class Tabs {
  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly workbench: IWorkbench,
    private readonly area: 'main' | 'down'
  ) {}

  readonly runs = new WidgetTracker<MainAreaWidget<RunTab>>({
    namespace: 'workbench-lab-runs'
  });

  readonly sweeps = new WidgetTracker<MainAreaWidget<SweepTab>>({
    namespace: 'workbench-lab-sweeps'
  });

  readonly comparisons = new WidgetTracker<MainAreaWidget<CompareTab>>({
    namespace: 'workbench-lab-comparisons'
  });

  openRun(id: string): void {
    const { preferences } = this.workbench;
    const there = this.runs.find(({ content }) => content.run === id);
    this._show(
      this.runs,
      there ??
        new MainAreaWidget({
          content: new RunTab(id, preferences)
        }),
      `workbench-run-${id}`
    );
  }

  openSweep(id: string): void {
    const { clusters } = this.workbench;
    const there = this.sweeps.find(({ content }) => content.sweep === id);
    const make = () => new SweepTab(id, () => clusters.sweep(id));
    this._show(
      this.sweeps,
      there ?? new MainAreaWidget({ content: make() }),
      `workbench-sweep-${id}`
    );
  }

  compare(ids: readonly string[]): void {
    const { preferences } = this.workbench;
    const id = `workbench-compare-${ids.join('-')}`;
    const there = this.comparisons.find(widget => widget.id === id);
    const open = (run: string) => this.openRun(run);
    const make = () => new CompareTab(ids, preferences, open);
    this._show(
      this.comparisons,
      there ?? new MainAreaWidget({ content: make() }),
      id
    );
  }

  /** Have a person choose among recent runs. */
  async choose(many: boolean): Promise<string[]> {
    const { recentRuns: limit } = this.workbench.preferences.values;
    const runs = await getRuns({ limit });
    const items = runs.map(
      run => `${run.name} · ${moment(run.created, run.now)} · ${run.id}`
    );
    const result = many
      ? await InputDialog.getMultipleItems({
          title: 'Compare Runs',
          items
        })
      : await InputDialog.getItem({ title: 'Open Run', items });
    const chosen = [result.value ?? []].flat();
    return result.button.accept
      ? runs
          .filter((_, place) => chosen.includes(items[place]))
          .map(run => run.id)
      : [];
  }

  private _show<W extends Widget>(
    tracker: WidgetTracker<W>,
    widget: W,
    id: string
  ): void {
    if (!tracker.has(widget)) {
      widget.id = id;
      widget.addClass(`wb-mod-${this.area}`);
      void tracker.add(widget);
      this.app.shell.add(widget, this.area);
    }
    this.app.shell.activateById(id);
  }
}

function addCommands(app: JupyterFrontEnd, tabs: Tabs): void {
  const one = { type: 'string', description: 'The id of the run' };
  app.commands.addCommand(CommandIDs.openRun, {
    label: 'Open Run…',
    caption: 'Show a run in its own tab',
    icon: runIcon,
    describedBy: { args: { type: 'object', properties: { id: one } } },
    execute: async (args: Arguments) => {
      const ids = args.id ? [String(args.id)] : await tabs.choose(false);
      ids.forEach(id => tabs.openRun(id));
    }
  });
  const sweep = { type: 'string', description: 'The id of the sweep' };
  app.commands.addCommand(CommandIDs.openSweep, {
    label: 'Open Sweep',
    caption: 'Show a sweep in its own tab',
    icon: runIcon,
    describedBy: { args: { type: 'object', properties: { id: sweep } } },
    isVisible: args => Boolean(args.id),
    execute: (args: Arguments) => tabs.openSweep(String(args.id))
  });
  app.commands.addCommand(CommandIDs.compare, {
    label: 'Compare Runs…',
    caption: 'Show the curves of several runs in one chart',
    icon: compareIcon,
    describedBy: {
      args: {
        type: 'object',
        properties: {
          ids: {
            type: 'array',
            items: one,
            maxItems: MOST_COMPARED,
            description: 'The ids of the runs'
          }
        }
      }
    },
    execute: async (args: Arguments) => {
      const given = Array.isArray(args.ids) ? args.ids.map(String) : null;
      const ids = given ?? (await tabs.choose(true));
      if (ids.length) {
        tabs.compare(ids.slice(0, MOST_COMPARED));
      }
    }
  });
}

export const tabsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'workbench-lab:tabs',
  description: 'Shows runs and comparisons of runs in tabs of their own.',
  autoStart: true,
  requires: [IWorkbench],
  optional: [ILabShell, ILayoutRestorer],
  activate: (
    app,
    workbench: IWorkbench,
    shell: ILabShell | null,
    restorer: ILayoutRestorer | null
  ) => {
    // Without JupyterLab's shell, as in Notebook 7, the main area holds the notebook alone.
    const tabs = new Tabs(app, workbench, shell ? 'main' : 'down');
    addCommands(app, tabs);
    void restorer?.restore(tabs.runs, {
      command: CommandIDs.openRun,
      args: ({ content }) => ({ id: content.run }),
      name: ({ content }) => content.run
    });
    void restorer?.restore(tabs.sweeps, {
      command: CommandIDs.openSweep,
      args: ({ content }) => ({ id: content.sweep }),
      name: ({ content }) => content.sweep
    });
    void restorer?.restore(tabs.comparisons, {
      command: CommandIDs.compare,
      args: ({ content }) => ({ ids: [...content.runs] }),
      name: ({ content }) => content.runs.join(' ')
    });
  }
};
