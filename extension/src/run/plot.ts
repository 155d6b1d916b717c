/**
 * Set uPlot up for a chart: axes, lines, bands and cursor in the colours of the theme.
 */
import type { Family } from '../protocol';
import uPlot from 'uplot';

import { axisOf, logAxisOf } from './axes';
import {
  FEW,
  heightOf,
  isSmoothed,
  type ICurve,
  type IDrawn,
  type ILayout,
  type ILine,
  type IStyle
} from './layout';
import { drawMarks, type IShownMark } from './marks';
import { clockTime, integer, tick } from './numbers';
import { nearest } from './series';
import type { ITheme } from './theme';
import type { Range } from './zoom';

const BAND_ALPHA = 0.18;
// Of what lies behind a smoothed line.
const FAINT_BAND_ALPHA = 0.1;
const RAW_ALPHA = 0.3;
// Of what a later attempt did again.
const REDONE_ALPHA = 0.4;
/** Steps between the labels of a time axis, in seconds. */
const SECONDS = [
  ...[0.001, 0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600],
  ...[900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800]
];
const EDGE = 8; // CSS pixels of a tick and the gap to its label
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [14, 4], [5, 2]];
const DASHED = [6, 3];
export const DOTTED: readonly number[] = [1.5, 2.5];

/** What a plot asks of its chart while it draws. */
export interface IPlotted {
  /** What kind of quantity the curves measure. */
  readonly family: Family;
  readonly curves: readonly ICurve[];
  readonly layout: ILayout;
  readonly style: IStyle;
  readonly theme: ITheme;
  readonly shown: Range | null;
  /** What the horizontal axis shows, in a word. */
  readonly across: string;
  readonly marks: readonly IShownMark[];
  /** The mouse moved the cursor; null when it left. */
  onPoint(iteration: number | null): void;
  /** The user selected a range. */
  onSelect(range: Range): void;
  /** The user reset the zoom. */
  onReset(): void;
}

/** Make the plot of `chart` in `node`. */
export function makePlot(
  chart: IPlotted,
  node: HTMLElement,
  width: number,
  height: number
): uPlot {
  const { theme, style, layout } = chart;
  const axis: uPlot.Axis = {
    stroke: theme.text,
    font: theme.font,
    grid: { stroke: theme.grid, width: 1 },
    ticks: { stroke: theme.grid, width: 1, size: 4 },
    gap: 4
  };
  const options: uPlot.Options = {
    width,
    height,
    // The last label of the iterations ends where the chart does.
    padding: [8, () => labelWidth(chart) / 2 + 1, 0, 0],
    legend: { show: false },
    scales: {
      x: { time: false, range: () => [...widened(chart.shown ?? [0, 1])] },
      y: {
        distr: style.log ? 3 : 1,
        range: () => verticalRange(chart)
      }
    },
    axes: [
      {
        ...axis,
        size: 26,
        space: 56,
        label: chart.across,
        labelFont: theme.font,
        labelSize: 16,
        labelGap: -2,
        ...(style.time && { incrs: SECONDS }),
        values: (_, splits, __, ___, step) =>
          style.time && step >= 1
            ? splits.map(value => (value === null ? '' : clockTime(value)))
            : labels(splits, step)
      },
      {
        ...axis,
        space: 28,
        // The longest label begins where the chart's title does.
        size: (_, values) => EDGE + widest(values ?? [], theme.font),
        values: (_, splits, __, ___, step) =>
          style.log ? labels(splits, 0) : labels(splits, step)
      }
    ],
    series: [{}, ...layout.lines.map(line => seriesOf(chart, line))],
    cursor: {
      y: false,
      points: { size: 7 },
      drag: { x: true, y: false, setScale: false, dist: 4 },
      dataIdx: (plot, series, _, iteration) =>
        placeOf(chart, series - 1, iteration, plot),
      bind: {
        dblclick: () => () => {
          chart.onReset();
          return null;
        }
      }
    },
    hooks: {
      drawAxes: [plot => drawBands(chart, plot)],
      draw: [plot => drawMarks(plot, chart.marks, chart.theme, uPlot.pxRatio)],
      setCursor: [plot => chart.onPoint(pointed(chart, plot))],
      setSelect: [
        plot => {
          const { left, width: chosen } = plot.select;
          if (chosen > 0) {
            const range = [left, left + chosen].map(at =>
              plot.posToVal(at, 'x')
            );
            plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            chart.onSelect([range[0], range[1]]);
          }
        }
      ]
    }
  };
  return new uPlot(options, layout.data, node);
}

function seriesOf(chart: IPlotted, line: ILine): uPlot.Series {
  const { theme, curves, style } = chart;
  const curve = curves[line.curve];
  const colour = theme.curves[curve.colour % theme.curves.length];
  const isThick = theme.isHighContrast;
  const dash = dashOf(theme, curve, line.curve);
  const width = isSmoothed(curve, style) ? 2 : 1.5;
  const shapes = {
    line: { width: isThick ? 2.5 : width, dash, alpha: 1 },
    raw: { width: 1, dash: [], alpha: RAW_ALPHA },
    redone: { width: 1.25, dash: [], alpha: REDONE_ALPHA },
    slowest: { width: isThick ? 2 : 1.25, dash: [...DOTTED], alpha: 0.9 }
  };
  return {
    ...shapes[line.kind],
    stroke: colour,
    points: {
      size: 5,
      fill: colour,
      show: () => line.kind === 'line' && curve.series.length <= FEW
    }
  };
}

/** The dashes of a curve's line, in CSS pixels. */
export function dashOf(theme: ITheme, curve: ICurve, place: number): number[] {
  if (theme.isHighContrast) {
    return DASHES[place % DASHES.length];
  }
  return curve.dashed ? DASHED : [];
}

function labels(splits: (number | null)[], step: number): string[] {
  return splits.map(value =>
    value === null ? '' : tick(value, step || Math.abs(value) || 1)
  );
}

/** A single iteration needs some width to be shown in. */
function widened([first, last]: Range): Range {
  return first < last ? [first, last] : [first - 1, last + 1];
}

function verticalRange(chart: IPlotted): uPlot.Range.MinMax {
  const { log } = chart.style;
  const shown = chart.shown;
  const found = shown && heightOf(chart.curves, chart.layout, shown, log);
  const [low, high] = found ?? (log ? [0.1, 1] : [0, 1]);
  const choose = log ? logAxisOf : axisOf;
  return [...choose(chart.family, [low, high])];
}

function labelWidth({ shown, theme }: IPlotted): number {
  return shown ? widest([integer(shown[1])], theme.font) : 0;
}

/** CSS pixels of the widest of some labels. */
function widest(labels: readonly string[], font: string): number {
  ruler ??= document.createElement('canvas').getContext('2d');
  if (!ruler) {
    return 0;
  }
  ruler.font = font;
  return Math.max(0, ...labels.map(text => ruler!.measureText(text).width));
}

let ruler: CanvasRenderingContext2D | null = null;

/** The index of the value under the cursor among the common iterations. */
function placeOf(
  chart: IPlotted,
  line: number,
  iteration: number,
  plot: uPlot
): number | null {
  const { lines, drawn, places } = chart.layout;
  if (lines[line]?.kind !== 'line') {
    return null;
  }
  const { curve } = lines[line];
  const { x } = drawn[curve];
  const place = nearest(x, iteration);
  const { min = -Infinity, max = Infinity } = plot.scales.x;
  const isShown = place >= 0 && min <= x[place] && x[place] <= max;
  return isShown ? places[curve][place] : null;
}

/** The common iteration nearest to the cursor. */
export function pointed(chart: IPlotted, plot: uPlot): number | null {
  const { left = -1 } = plot.cursor;
  if (left < 0) {
    return null;
  }
  const x = chart.layout.data[0];
  return x[nearest(x, plot.posToVal(left, 'x'))] ?? null;
}

/** Fill from the least to the greatest value of each bucket, under the lines. */
function drawBands(chart: IPlotted, plot: uPlot): void {
  const { ctx, bbox } = plot;
  const { theme, curves, layout, style } = chart;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  curves.forEach((curve, i) => {
    if (curve.series.hasBand) {
      ctx.globalAlpha = isSmoothed(curve, style)
        ? FAINT_BAND_ALPHA
        : BAND_ALPHA;
      ctx.fillStyle = theme.curves[curve.colour % theme.curves.length];
      ctx.fill(bandOf(plot, layout.drawn[i], style.log));
    }
  });
  ctx.restore();
}

function bandOf(plot: uPlot, { x, low, high }: IDrawn, log: boolean): Path2D {
  const path = new Path2D();
  const { min = 0, max = 0 } = plot.scales.x;
  const floor = plot.scales.y.min ?? 0;
  const across = (i: number) => plot.valToPos(x[i], 'x', true);
  const up = (value: number) =>
    plot.valToPos(log ? Math.max(value, floor) : value, 'y', true);
  const isGap = (i: number) => Number.isNaN(low[i]) || (log && !(high[i] > 0));
  const end = Math.min(x.length, nearest(x, max) + 2);
  let i = Math.max(0, nearest(x, min) - 1);
  while (i < end) {
    const first = i;
    while (i < end && !isGap(i)) {
      path.lineTo(across(i), up(high[i]));
      i += 1;
    }
    for (let back = i - 1; back >= first; back--) {
      path.lineTo(across(back), up(low[back]));
    }
    if (i > first) {
      path.closePath();
    }
    i += 1;
  }
  return path;
}
