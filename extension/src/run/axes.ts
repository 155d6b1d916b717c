/**
 * Choose what a vertical axis shows, as `workbench/view/pictures/curve_picture.py` does: never an impossible value.
 */
import type { Family } from '../protocol';
import type { Range } from './zoom';

const MARGIN = 0.06;
/** Of a constant, on both sides of it. */
const CONSTANT_MARGIN = 0.1;

/**
 * The ends of an axis that shows values from `low` to `high`, with a margin where values may be.
 *
 * @param family - what is measured: a share is between 0 and 1, or 0 and 100
 */
export function axisOf(family: Family, [low, high]: Range): Range {
  const margin = MARGIN * (high - low) || CONSTANT_MARGIN * Math.abs(high) || 1;
  const [floor, ceiling] = possible(family, [low, high]);
  return [Math.max(floor, low - margin), Math.min(ceiling, high + margin)];
}

/** The same for a logarithmic axis; all values are above 0. */
export function logAxisOf(family: Family, [low, high]: Range): Range {
  const [bottom, top] = [rounded(low, Math.floor), rounded(high, Math.ceil)];
  if (bottom < top) {
    return [bottom, top];
  }
  return 10 * bottom > possible(family, [low, high])[1]
    ? [bottom / 10, bottom]
    : [bottom, 10 * bottom];
}

/** Between which values a quantity lies whose values so far are from `low` to `high`. */
function possible(family: Family, [low, high]: Range): Range {
  if (low < 0) {
    return [-Infinity, Infinity];
  }
  const whole = high <= 1 ? 1 : high <= 100 ? 100 : Infinity;
  return [0, family === 'share' ? whole : Infinity];
}

/** A number with one digit: what the ticks of a logarithmic axis begin and end with. */
function rounded(value: number, round: (value: number) => number): number {
  const unit = 10 ** Math.floor(Math.log10(value));
  return Number((round(value / unit) * unit).toPrecision(1));
}
