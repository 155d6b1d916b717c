/**
 * Show in the page's language what the server says of a run and its curves.
 */
import type { IPhrase, IRun } from '../protocol';
import type { IRedone } from './layout';
import type { IShownMark } from './marks';
import type { Connection, RunModel } from './model';
import { duration, integer, number } from './numbers';
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

/** What a curve shows, for those who do not see it; empty while it is not known. */
export function describe(
  { run }: RunModel,
  name: string,
  label: string,
  trans: ITrans
): string {
  const found = run?.curves?.find(one => one.name === name);
  return found ? said(found.description, trans, label) : '';
}

/** Where a run continued in another attempt, and why. */
export function marksOf({ run }: RunModel, trans: ITrans): IShownMark[] {
  return (run?.marks ?? []).map(({ iteration, text, is_pending }) => ({
    iteration,
    text: said(text, trans),
    ...(is_pending && { isPending: true })
  }));
}

/** The stretches of a curve that later attempts did again. */
export function redoneOf(
  model: RunModel,
  name: string,
  trans: ITrans
): IRedone[] {
  const known = model.run?.redone ?? [];
  return model.redone(name).map(series => {
    const found = known.find(one => one.attempt === series.attempt);
    return { series, text: found ? said(found.text, trans) : '' };
  });
}

/** Which values of a run's curves are not finite; empty if all are. */
export function nonfiniteRemarks({ curves }: IRun, trans: ITrans): string {
  return (curves ?? [])
    .flatMap(({ name, remark }) => (remark ? said(remark, trans, name) : []))
    .join('; ');
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
