/**
 * Draw a run's main curve as a small picture.
 */
import * as React from 'react';

import type { IListedRun } from './protocol';
import { number } from './run/numbers';

const WIDTH = 48;
const HEIGHT = 18;
const MARGIN = 2;

/**
 * The path of a curve; a gap interrupts it, and a value between two gaps is a dot.
 *
 * @param values - at equal distances; null for a gap
 */
export function sparklinePath(
  values: readonly (number | null)[],
  width = WIDTH,
  height = HEIGHT
): string {
  const known = values.filter((value): value is number => value !== null);
  const low = Math.min(...known);
  const range = Math.max(...known) - low;
  const step = (width - 2 * MARGIN) / Math.max(1, values.length - 1);
  const y = (value: number) =>
    range > 0
      ? height - MARGIN - ((value - low) / range) * (height - 2 * MARGIN)
      : height / 2;
  const round = (place: number) => Number(place.toFixed(2));

  let path = '';
  values.forEach((value, index) => {
    if (value === null) {
      return;
    }
    const place = `${round(MARGIN + index * step)} ${round(y(value))}`;
    const isFirst = index === 0 || values[index - 1] === null;
    const isAlone = isFirst && (values[index + 1] ?? null) === null;
    path += isFirst ? `M${place}` : `L${place}`;
    path += isAlone ? `L${place}` : '';
  });
  return path;
}

/** What a sparkline shows, for those who do not see it. */
export function sparklineLabel(run: IListedRun): string {
  const known = run.sparkline.filter(
    (value): value is number => value !== null
  );
  if (!known.length) {
    return 'No values yet';
  }
  const [first, last] = [known[0], known[known.length - 1]];
  return `${run.sparkline_name} from ${number(first)} to ${number(last)}`;
}

/** A run's main curve, without axes. */
export function Sparkline(props: { run: IListedRun }): JSX.Element {
  const { run } = props;
  return (
    <svg
      className="wb-sparkline"
      role="img"
      aria-label={sparklineLabel(run)}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      width={WIDTH}
      height={HEIGHT}
    >
      <path d={sparklinePath(run.sparkline)} />
    </svg>
  );
}
