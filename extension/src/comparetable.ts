/**
 * Lay runs side by side, a column each, as `workbench/view/listing.py` does.
 */
import type { IRun } from './protocol';
import { groupNames } from './run/metrics';
import { clock, integer, number } from './run/numbers';
import type { ITrans } from './run/trans';
import { NOTHING, standing, value } from './words';

const STEP_PREFIX = 'step/';

interface IRow {
  name: string;
  /** One for each run. */
  words: string[];
  /** Whether that is what runs were made to differ in. */
  differs?: boolean;
}

/** Rows of one kind. */
export interface IRows {
  title: string;
  rows: IRow[];
}

/** What is to be seen of `runs` side by side. */
export function compareRows(runs: readonly IRun[], trans: ITrans): IRows[] {
  return [
    { title: trans.__('Run'), rows: facts(runs, trans) },
    { title: trans.__('Parameters'), rows: parameters(runs) },
    { title: trans.__('Last values'), rows: values(runs) },
    { title: trans.__('Milliseconds a step'), rows: steps(runs) }
  ].filter(part => part.rows.length > 0);
}

function facts(runs: readonly IRun[], trans: ITrans): IRow[] {
  const row = (name: string, word: (run: IRun) => string) => ({
    name,
    words: runs.map(word)
  });
  return [
    row(trans.__('State'), run => standing(run, trans)),
    row(trans.__('Cluster'), run => run.cluster),
    row(trans.__('Ranks'), run => (run.ranks ? integer(run.ranks) : NOTHING)),
    row(trans.__('Iterations'), run => integer(run.iteration)),
    row(trans.__('Duration'), run =>
      run.started ? clock(run.seconds_taken) : NOTHING
    )
  ];
}

function parameters(runs: readonly IRun[]): IRow[] {
  const names = new Set(runs.flatMap(run => Object.keys(run.parameters)));
  return [...names].sort().map(name => {
    const words = runs.map(run => plain(run.parameters[name]));
    return { name, words, differs: new Set(words).size > 1 };
  });
}

function values(runs: readonly IRun[]): IRow[] {
  const groups = groupNames(runs.flatMap(run => Object.keys(run.values)));
  return groups
    .flatMap(({ names }) => names)
    .map(name => ({ name, words: runs.map(run => value(run.values[name])) }));
}

function steps(runs: readonly IRun[]): IRow[] {
  const names = new Set(runs.flatMap(run => Object.keys(run.values)));
  return [...names]
    .filter(name => name.startsWith(STEP_PREFIX))
    .sort()
    .map(name => ({
      name: name.slice(STEP_PREFIX.length),
      words: runs.map(run => {
        const seconds = run.values[name];
        return typeof seconds === 'number' ? number(1000 * seconds) : NOTHING;
      })
    }));
}

/** A parameter as one would write it. */
function plain(parameter: unknown): string {
  if (parameter === undefined) {
    return NOTHING;
  }
  if (typeof parameter === 'number') {
    return number(parameter, 6);
  }
  return typeof parameter === 'string' ? parameter : JSON.stringify(parameter);
}
