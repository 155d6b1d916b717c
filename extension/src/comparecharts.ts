/**
 * The charts of several runs: one for each quantity, a colour for each run.
 */
import type { Family } from './protocol';
import { Chart, type ICurve, type IStyle } from './run/chart';
import { lastValue } from './run/charts';
import { clockOf, inTime } from './run/clock';
import { element } from './run/dom';
import { groupsOf, MOST_GROUPS } from './run/groups';
import type { RunModel } from './run/model';
import { describe } from './run/phrases';
import type { Series } from './run/series';
import { Toolbar } from './run/toolbar';
import { Zoom, type Range } from './run/zoom';

/** More runs than there are colours cannot be distinguished. */
export const MOST_COMPARED = 6;

/** A chart to be drawn: what it measures, and its curves. */
export interface IComparison {
  quantity: string;
  family: Family;
  curves: ICurve[];
}

/** The charts of several runs; what is measured on validation data is dashed. */
export function comparisons(
  models: readonly RunModel[],
  isTime = false
): IComparison[] {
  const known = models.flatMap(model => [...model.curves.values()]);
  return groupsOf(known)
    .slice(0, MOST_GROUPS)
    .map(({ quantity, family, names }) => ({
      ...{ quantity, family },
      curves: models.flatMap((model, colour) =>
        names
          .filter(name => model.curves.get(name)?.length)
          .map(name => {
            const clock = isTime ? clockOf(model) : null;
            const known = withoutRanks(model.curves.get(name)!);
            const series = clock ? inTime(known, clock) : known;
            const label = labelOf(model, names.length > 1 ? name : '');
            return {
              ...{ series, label, colour, dashed: series.isValidation },
              last: lastValue(model, name),
              description: describe(model, name, label)
            };
          })
      )
    }))
    .filter(({ curves }) => curves.length > 0);
}

/** The charts of several runs, on the same iterations. */
export class CompareCharts {
  constructor(
    private readonly models: readonly RunModel[],
    private _style: IStyle
  ) {
    this._toolbar = new Toolbar(
      this._zoom,
      () => this._whole,
      style => this._apply(style)
    );
    this._toolbar.set(_style);
    this.node.append(this._toolbar.node, this._grid);
    this.update();
  }

  readonly node = element('div', { class: 'wb-run' });

  /** Curves have grown. */
  update(): void {
    const style = this._drawnStyle;
    this._zoom.setTime(style.time);
    for (const { quantity, family, curves } of comparisons(
      this.models,
      style.time
    )) {
      let chart = this._charts.get(quantity);
      if (!chart) {
        const { _zoom: zoom } = this;
        chart = new Chart({ quantity, family, zoom, style });
        this._charts.set(quantity, chart);
        this._grid.append(chart.node);
      }
      chart.style = style;
      chart.update(curves);
    }
    this._toolbar.node.hidden = !this._charts.size;
  }

  setStyle(style: IStyle): void {
    this._toolbar.set(style);
    this._apply(style);
  }

  refreshTheme(): void {
    this._charts.forEach(chart => chart.refreshTheme());
  }

  dispose(): void {
    this._toolbar.dispose();
    this._charts.forEach(chart => chart.dispose());
    this._zoom.dispose();
  }

  private get _whole(): Range | null {
    const spans = comparisons(this.models, this._drawnStyle.time)
      .flatMap(({ curves }) => curves)
      .flatMap(({ series }) => series.span ?? []);
    return spans.length ? [Math.min(...spans), Math.max(...spans)] : null;
  }

  private _apply(style: IStyle): void {
    this._style = style;
    this.update();
  }

  /** Runs are on a common time only if it is known of all of them. */
  private get _drawnStyle(): IStyle & { time: boolean } {
    const isKnown = this.models.every(model => clockOf(model) !== null);
    return { ...this._style, time: (this._style.time ?? false) && isKnown };
  }

  private readonly _zoom = new Zoom();
  private readonly _toolbar: Toolbar;
  private readonly _charts = new Map<string, Chart>();
  private readonly _grid = element('div', { class: 'wb-charts' });
}

function labelOf({ id, run }: RunModel, name: string): string {
  return [run?.name ?? id, name].filter(part => part).join(' ');
}

/** The same curve without a band and a slowest rank: runs are compared here, not their ranks. */
function withoutRanks(series: Series): Series {
  return Object.create(series, {
    hasBand: { value: false },
    ranks: { value: 1 }
  }) as Series;
}
