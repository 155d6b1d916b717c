/**
 * Show the charts of one run: one for each quantity, on the same iterations.
 */
import { Chart, type ICurve, type IStyle } from './chart';
import { clockOf, inTime, type Clock } from './clock';
import { element, setText } from './dom';
import { groupsOf, MOST_GROUPS, type IGroup } from './groups';
import type { RunModel } from './model';
import { describe, marksOf, nonfiniteRemarks, redoneOf } from './phrases';
import type { Series } from './series';
import type { Range, Zoom } from './zoom';

/** The last value as it is stored, of a run that is over. */
export function lastValue({ run }: RunModel, name: string): number | undefined {
  return (run?.is_ended ? run.values[name] : null) ?? undefined;
}

/** The ranks' last values as they are stored, of a run that is over. */
export function lastRange({ run }: RunModel, name: string): Range | undefined {
  return run?.is_ended ? run.ranges?.[name] : undefined;
}

export class RunCharts {
  constructor(
    private readonly model: RunModel,
    private readonly zoom: Zoom,
    private _style: IStyle
  ) {
    this.node.append(this._remark, this._grid, this._more);
    this.update();
  }

  readonly node = element('div', { class: 'wb-section' });

  /** Number of charts. */
  get size(): number {
    return this._charts.size;
  }

  /** The first and last iteration, or second, that is known; null while there is none. */
  get whole(): Range | null {
    const spans = this._known.flatMap(one => this._placed(one).span ?? []);
    return spans.length ? [Math.min(...spans), Math.max(...spans)] : null;
  }

  /** Draw again only if something that is drawn, but the curves, has changed. */
  updateWords(): void {
    const { run, slowest } = this.model;
    const { curves, marks, redone, is_ended, values, clock } = run ?? {};
    const names = curves?.map(({ name }) => name);
    const time = this._style.time && clock;
    const said = [names, marks, redone, is_ended && values, slowest, time];
    const words = JSON.stringify(said);
    if (words !== this._words) {
      this._words = words;
      this.update();
      return;
    }
    this._charts.forEach(chart =>
      chart.describe(name => describe(this.model, name, name))
    );
    this._remarks(groupsOf(this._known));
  }

  /** The curves have changed. */
  update(): void {
    const { curves, slowest } = this.model;
    const known = this._known;
    const hasRanges = known.some(one => one.hasBand);
    const groups = groupsOf(known);
    const drawn = groups.slice(0, MOST_GROUPS);
    this._arrange(drawn);
    const clock = this._clock;
    this.zoom.setTime(clock !== null);
    const marks = marksOf(this.model).map(mark =>
      clock ? { ...mark, at: clock.at(mark.iteration) } : mark
    );
    for (const { quantity, names } of drawn) {
      const chart = this._charts.get(quantity)!;
      chart.setMarks(marks);
      chart.style = this._drawnStyle;
      chart.update(
        names.map((name, colour): ICurve => {
          const series = this._placed(curves.get(name)!);
          const description = describe(this.model, name, name);
          const look = { label: name, description, colour, dashed: false };
          const last = lastValue(this.model, name);
          return {
            series,
            ...look,
            last,
            lastRange: lastRange(this.model, name),
            redone: redoneOf(this.model, name).map(one => ({
              ...one,
              series: this._placed(one.series)
            }))
          };
        }),
        slowest,
        hasRanges
      );
    }
    this._remarks(groups);
  }

  setStyle(style: IStyle): void {
    this._style = style;
    this.update();
  }

  refreshTheme(): void {
    this._charts.forEach(chart => chart.refreshTheme());
  }

  dispose(): void {
    this._charts.forEach(chart => chart.dispose());
  }

  /** What places curves in time; null where they are on iterations. */
  private get _clock(): Clock | null {
    return this._style.time ? clockOf(this.model) : null;
  }

  private get _drawnStyle(): IStyle {
    return { ...this._style, time: this._clock !== null };
  }

  private _placed(series: Series): Series {
    const clock = this._clock;
    return clock ? inTime(series, clock) : series;
  }

  private get _known(): Series[] {
    return [...this.model.curves.values()].filter(one => one.length);
  }

  private _arrange(groups: IGroup[]): void {
    const wanted = groups.map(({ quantity }) => quantity);
    if (wanted.join('\n') === [...this._charts.keys()].join('\n')) {
      return;
    }
    const { zoom, _drawnStyle: style } = this;
    const before = new Map(this._charts);
    this._charts.clear();
    for (const { quantity, family } of groups) {
      const chart =
        before.get(quantity) ?? new Chart({ quantity, family, zoom, style });
      before.delete(quantity);
      this._charts.set(quantity, chart);
      this._grid.append(chart.node);
    }
    before.forEach(chart => chart.dispose());
  }

  private _remarks(groups: IGroup[]): void {
    const { model } = this;
    const remarks = model.run ? nonfiniteRemarks(model.run) : '';
    setText(this._remark, remarks);
    this._remark.hidden = !remarks;
    const left = groups.slice(MOST_GROUPS).map(({ quantity }) => quantity);
    this._more.hidden = !left.length;
    if (left.length) {
      setText(
        this._more,
        left.length === 1
          ? `${left.length} more quantity is not drawn: ${left.join(', ')}`
          : `${left.length} more quantities are not drawn: ${left.join(', ')}`
      );
    }
  }

  private _words = '';
  private readonly _charts = new Map<string, Chart>();
  private readonly _grid = element('div', { class: 'wb-charts' });
  private readonly _remark = element('p', { class: 'wb-remark wb-warning' });
  private readonly _more = element('p', { class: 'wb-note' });
}
