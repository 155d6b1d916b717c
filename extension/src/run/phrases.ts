/**
 * Show what the server says of a run and its curves.
 */
import type { IRun } from '../protocol';
import type { IRedone } from './layout';
import type { IShownMark } from './marks';
import type { Connection, RunModel } from './model';

/** A run's state in a word. */
export function stateWord({ word, state }: IRun): string {
  return word || state;
}

/** A run's progress in one line; its state is shown beside it. */
export function stateLine({ line, message }: IRun): string {
  return line ? line.join(' · ') : message; // saved by an older version
}

/** What is to be said of the connection; often nothing. */
export function connectionRemark(
  connection: Connection,
  problem: string
): string {
  switch (connection) {
    case 'lost':
      return problem
        ? `${problem} Trying again…`
        : 'Connection lost; trying again…';
    case 'unknown':
      return "This run is not in this machine's store; the picture below was saved with the notebook.";
    case 'no-server':
      return 'The server extension of workbench is not enabled here; enable it with `jupyter server extension enable workbench.server`. The view below was saved with the notebook.';
    default:
      return '';
  }
}

/** What a curve shows, for those who do not see it; empty while it is not known. */
export function describe(
  { run }: RunModel,
  name: string,
  label: string
): string {
  const found = run?.curves?.find(one => one.name === name);
  return found ? `${label} ${found.description}` : '';
}

/** Where a run continued in another attempt, and why. */
export function marksOf({ run }: RunModel): IShownMark[] {
  return (run?.marks ?? []).map(({ iteration, text, is_pending }) => ({
    iteration,
    text,
    ...(is_pending && { isPending: true })
  }));
}

/** The stretches of a curve that later attempts did again. */
export function redoneOf(model: RunModel, name: string): IRedone[] {
  const known = model.run?.redone ?? [];
  return model.redone(name).map(series => {
    const found = known.find(one => one.attempt === series.attempt);
    return { series, text: found?.text ?? '' };
  });
}

/** Which values of a run's curves are not finite; empty if all are. */
export function nonfiniteRemarks({ curves }: IRun): string {
  return (curves ?? [])
    .flatMap(({ name, remark }) => (remark ? `${name} ${remark}` : []))
    .join('; ');
}
