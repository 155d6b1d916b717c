/**
 * Draw marks on a chart's iterations: thin lines, and short texts where there is room for them.
 */
import type uPlot from 'uplot';

import type { ITheme } from './theme';
import type { Range } from './zoom';

/** Where something happened to the run. */
export interface IShownMark {
  iteration: number;
  /** Where it is drawn, if not at the iteration. */
  at?: number;
  text: string;
  /** Whether the run is to move there; it is drawn at the edge until the curves come as far. */
  isPending?: boolean;
}

/** A mark in the picture, in pixels from the left. */
export interface IPlacedMark {
  x: number;
  /** Empty where there is no room for it. */
  text: string;
  /** Where the text begins. */
  start: number;
  isPending: boolean;
  /** Whether the text is below those of the others. */
  isBelow?: boolean;
}

const GAP = 4; // CSS pixels between a line and its text
const LINE = 1.3; // times the height of letters
const DASHES = [4, 3];
const DOTS = [1, 3]; // of a mark that is pending

/**
 * Place the marks that are in sight, in their order. A text is beside its line, at the right if there is
 * room before the next mark; of crowded ones the last has its text first, below the others if it has to
 * be.
 *
 * @param across - the pixel of an iteration
 * @param width - of a text in pixels
 * @param span - the first and last pixel of the picture
 * @param gap - pixels between a text and a line, or another text
 */
export function place(
  marks: readonly IShownMark[],
  across: (iteration: number) => number,
  width: (text: string) => number,
  span: Range,
  gap: number
): IPlacedMark[] {
  const seen = marks
    .map(({ iteration, at, text, isPending = false }): IPlacedMark => {
      const x = across(at ?? iteration);
      const end = isPending ? Math.min(x, span[1]) : x;
      return { x: end, text, start: 0, isPending };
    })
    .filter(({ x }) => span[0] <= x && x <= span[1])
    .sort((one, other) => one.x - other.x);
  let limit = span[1];
  for (let i = seen.length - 1; i >= 0; i--) {
    const mark = seen[i];
    const needed = width(mark.text) + 2 * gap;
    const before = i > 0 ? seen[i - 1].x : span[0];
    if (mark.x + needed <= limit) {
      mark.start = mark.x + gap;
      limit = mark.x;
    } else if (mark.x <= limit && mark.x - needed >= before) {
      mark.start = mark.x - needed + gap;
      limit = mark.start;
    } else if (i === seen.length - 1 && mark.x - needed >= span[0]) {
      mark.start = mark.x - needed + gap;
      mark.isBelow = true;
      limit = mark.x;
    } else {
      mark.text = '';
      limit = Math.min(limit, mark.x);
    }
  }
  return seen;
}

/** Draw marks over the curves of a plot. */
export function drawMarks(
  plot: uPlot,
  marks: readonly IShownMark[],
  theme: ITheme,
  ratio: number
): void {
  if (!marks.length) {
    return;
  }
  const { ctx, bbox } = plot;
  const { left, top, width, height } = bbox;
  ctx.save();
  ctx.font = theme.font.replace(/[\d.]+/, size => String(Number(size) * ratio));
  ctx.textAlign = 'left';
  ctx.textBaseline = 'top';
  ctx.fillStyle = ctx.strokeStyle = theme.text;
  ctx.lineWidth = ratio;
  const placed = place(
    marks,
    iteration => plot.valToPos(iteration, 'x', true),
    text => ctx.measureText(text).width,
    [left, left + width],
    GAP * ratio
  );
  const line = parseFloat(ctx.font.match(/[\d.]+/)![0]) * LINE;
  for (const { x, text, start, isPending, isBelow } of placed) {
    const dashes = isPending ? DOTS : DASHES;
    ctx.setLineDash(dashes.map(length => length * ratio));
    ctx.beginPath();
    ctx.moveTo(Math.round(x) + ratio / 2, top);
    ctx.lineTo(Math.round(x) + ratio / 2, top + height);
    ctx.stroke();
    ctx.fillText(text, start, top + ratio + (isBelow ? line : 0));
  }
  ctx.restore();
}
