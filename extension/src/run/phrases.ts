/**
 * Put a run's state and its curves into words.
 */
import type { IPhrase, IRun } from '../protocol';
import type { Connection } from './model';
import { duration, integer, number } from './numbers';
import type { Series } from './series';
import type { ITrans } from './trans';

/**
 * A text from the server in the page's language.
 *
 * @param label - of what the text describes
 */
export function said(
  phrase: IPhrase | string,
  trans: ITrans,
  label = ''
): string {
  if (typeof phrase === 'string') {
    return phrase;
  }
  const { text, args = [], plural, amount = 0 } = phrase;
  const shown = args.map(one => argument(one, trans, label));
  return plural
    ? trans._n(text, plural, amount, ...shown)
    : trans.__(text, ...shown);
}

/** A run's state in a word. */
export function stateWord({ word, state }: IRun, trans: ITrans): string {
  return word ? said(word, trans) : state;
}

/** A run's progress in one line; its state is shown beside it. */
export function stateLine({ line, message }: IRun, trans: ITrans): string {
  return line ? line.map(part => said(part, trans)).join(' · ') : message; // saved by an older version
}

/** What is to be said of the connection; often nothing. */
export function connectionRemark(
  connection: Connection,
  problem: string,
  trans: ITrans
): string {
  switch (connection) {
    case 'lost':
      return problem
        ? trans.__('%1 Trying again…', problem)
        : trans.__('Connection lost; trying again…');
    case 'unknown':
      return trans.__(
        "This run is not in this machine's store; the picture below was saved with the notebook."
      );
    case 'no-server':
      return trans.__(
        'The server extension of workbench is not enabled here; enable it with `jupyter server extension enable workbench.server`. The view below was saved with the notebook.'
      );
    default:
      return '';
  }
}

/** That values are not finite, in a sentence; nothing when all are. */
export function nonfiniteRemark(series: Series, trans: ITrans): string {
  const { name, nonfinite, nonfiniteFirst, length } = series;
  if (!nonfinite) {
    return '';
  }
  const [first, count] = [integer(nonfiniteFirst), integer(nonfinite)];
  return length && !Number.isNaN(series.median[length - 1])
    ? trans._n(
        '%2 was not finite at iteration %3 (%4 value)',
        '%2 was not finite at times, first at iteration %3 (%4 values)',
        nonfinite,
        name,
        first,
        count
      )
    : trans._n(
        '%2 has not been finite since iteration %3 (%4 value)',
        '%2 has not been finite since iteration %3 (%4 values)',
        nonfinite,
        name,
        first,
        count
      );
}

/** What a curve shows, for those who do not see it. */
export function describe(label: string, series: Series, trans: ITrans): string {
  const { x, median } = series;
  const first = median.findIndex(value => !Number.isNaN(value));
  if (first < 0) {
    return trans.__('%1 has no finite value', label);
  }
  let last = median.length - 1;
  while (Number.isNaN(median[last])) {
    last -= 1;
  }
  const [start, end] = [number(median[first]), number(median[last])];
  if (first === last) {
    return trans.__('%1 is %2 at iteration %3', label, end, integer(x[last]));
  }
  const over = Math.round(x[last] - x[first]);
  if (median[last] < median[first]) {
    return trans._n(
      '%2 falls from %3 to %4 over %5 iteration',
      '%2 falls from %3 to %4 over %5 iterations',
      over,
      label,
      start,
      end,
      integer(over)
    );
  }
  return median[last] > median[first]
    ? trans._n(
        '%2 rises from %3 to %4 over %5 iteration',
        '%2 rises from %3 to %4 over %5 iterations',
        over,
        label,
        start,
        end,
        integer(over)
      )
    : trans._n(
        '%2 stays at %3 over %4 iteration',
        '%2 stays at %3 over %4 iterations',
        over,
        label,
        end,
        integer(over)
      );
}

function argument(
  one: NonNullable<IPhrase['args']>[number],
  trans: ITrans,
  label: string
): string {
  if (!Array.isArray(one)) {
    return one === null ? label : said(one, trans, label);
  }
  const [unit, amount] = one;
  switch (unit) {
    case 'count':
      return integer(amount);
    case 'value':
      return number(amount);
    case 'rate':
      return number(amount, 3);
    case 'duration':
      return duration(amount, trans);
  }
}
