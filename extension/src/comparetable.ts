/**
 * Lay runs side by side, a column each, as `workbench/view/tables/listing.py` does.
 */
import { totalOf } from './comparison';
import type { IRun, IStep } from './protocol';
import {
  duration,
  fixed,
  integer,
  millisecondPlaces,
  number
} from './run/numbers';
import { partNames } from './run/parts';
import { NOTHING, standing, value } from './words';

/** What is known of all runs under one name. */
export interface IRow {
  name: string;
  /** One for each run. */
  words: string[];
  /** Whether that is what runs were made to differ in. */
  differs?: boolean;
  /** Whether it is a part of the nearest row above that is not a part. */
  isPart?: boolean;
  /** Whether the words are numbers, which are read from the right. */
  isNumeric?: boolean;
}

/** Rows of one kind. */
export interface IRows {
  title: string;
  rows: IRow[];
}

/** What is to be seen of `runs` side by side. */
export function compareRows(runs: readonly IRun[]): IRows[] {
  return [
    { title: 'Run', rows: facts(runs) },
    { title: 'Parameters', rows: given(runs) },
    { title: 'Last values', rows: values(runs) },
    { title: 'Milliseconds per step', rows: steps(runs) }
  ].filter(part => part.rows.length > 0);
}

function facts(runs: readonly IRun[]): IRow[] {
  const row = (
    name: string,
    word: (run: IRun) => string,
    isNumeric = true
  ) => ({ name, words: runs.map(word), isNumeric });
  return [
    row('State', run => standing(run), false),
    row('Cluster', run => run.cluster, false),
    row('Ranks', run => (run.ranks ? integer(run.ranks) : NOTHING)),
    row('Iterations', run => integer(run.iteration)),
    row('Duration', run =>
      run.started ? duration(run.seconds_taken) : NOTHING
    )
  ];
}

/** The arguments of scripts, and the parameters. */
function given(runs: readonly IRun[]): IRow[] {
  const words = runs.map(run => run.arguments.join(' ') || NOTHING);
  const differs = new Set(words).size > 1;
  const row = { name: 'Arguments', words, differs };
  const hasAny = runs.some(run => run.arguments.length);
  return [...(hasAny ? [row] : []), ...parameters(runs)];
}

function parameters(runs: readonly IRun[]): IRow[] {
  const names = new Set(runs.flatMap(run => Object.keys(run.parameters)));
  return [...names].sort().map(name => {
    const given = runs.map(run => run.parameters[name]);
    const words = given.map(plain);
    const isNumeric = given.every(
      one => one === undefined || typeof one === 'number'
    );
    return { name, words, differs: new Set(words).size > 1, isNumeric };
  });
}

function values(runs: readonly IRun[]): IRow[] {
  const names = new Set(runs.flatMap(run => Object.keys(run.values)));
  return [...names].map(name => ({
    name,
    words: runs.map(run => value(run.values[name])),
    isNumeric: true
  }));
}

/** All of a step, and then its parts. */
function steps(runs: readonly IRun[]): IRow[] {
  const known = runs.flatMap(({ step }) => step ?? []);
  const parts = [...partNames()].filter(([part]) =>
    known.some(step => part in step.parts)
  );
  const places = millisecondPlaces(Math.max(...known.map(totalOf)));
  const word = (seconds: number | null | undefined) =>
    typeof seconds === 'number' ? fixed(1000 * seconds, places) : NOTHING;
  const row = (name: string, seconds: (step: IStep) => number | undefined) => ({
    name,
    words: runs.map(({ step }) => word(step && seconds(step))),
    isNumeric: true
  });
  return known.length
    ? [
        row('total', totalOf),
        ...parts.map(([part, name]) => ({
          ...row(name, step => step.parts[part]),
          isPart: true
        }))
      ]
    : [];
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
