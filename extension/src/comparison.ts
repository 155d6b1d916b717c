/**
 * Say which of several runs is the fastest, by how much, and which part of a step makes it so, as
 * `workbench/core/performance/comparison.py` does.
 */
import type { IRun, IStep, StepPart } from './protocol';
import { number } from './run/numbers';
import { partNames } from './run/parts';

/** Less than that is no difference, however quiet the machines were. */
const LEAST = 0.02;

/** Batches are the same if they are as large but for what the last one of an epoch lacks. */
const SAME_BATCH = 0.01;

type Parts = IStep['parts'];

interface IKnown {
  name: string;
  step: IStep;
}

/** Seconds of a step. */
export function totalOf({ parts }: IStep): number {
  return Object.values(parts).reduce((sum, seconds) => sum + seconds, 0);
}

/** How runs differ in speed, in a sentence; empty where fewer than two were measured. */
export function compared(runs: readonly Pick<IRun, 'name' | 'step'>[]): string {
  const known = runs.flatMap(({ name, step }): IKnown[] =>
    step && totalOf(step) > 0 ? [{ name, step }] : []
  );
  if (known.length < 2) {
    return '';
  }
  const byExamples =
    known.every(({ step }) => step.batch > 0) && !areSameBatches(known);
  const speed = ({ step }: IKnown) =>
    (byExamples ? step.batch : 1) / totalOf(step);
  const ordered = [...known].sort((one, other) => speed(one) - speed(other));
  const [slow, fast] = [ordered[0], ordered[ordered.length - 1]];
  const times = speed(fast) / speed(slow);
  const noise = Math.max(LEAST, Math.hypot(slow.step.noise, fast.step.noise));
  if (times < 1 + noise) {
    const percent = (100 * noise).toFixed(0);
    return `These runs are equally fast within the noise (±${percent} %).`;
  }
  const rate = times.toFixed(times < 10 ? 1 : 0);
  const said = `Run '${fast.name}' is ${rate} times as fast as run '${slow.name}'`;
  if (byExamples) {
    return `${said}, in examples a second.`;
  }
  const [part, less] = difference(slow.step, fast.step);
  const saved = number(1000 * less, 3);
  return `${said}: ${partNames().get(part)!} took ${saved} ms less a step.`;
}

function areSameBatches(known: IKnown[]): boolean {
  const batches = known.map(({ step }) => step.batch);
  const most = Math.max(...batches);
  return most - Math.min(...batches) <= SAME_BATCH * most;
}

/** The part that differs most in favour of `best`, and by how many seconds. */
function difference(base: IStep, best: IStep): [StepPart, number] {
  const areAlike = [base, best].every(({ parts }) => 'waiting' in parts);
  const [before, after] = [base, best].map(({ parts }) =>
    areAlike ? parts : joined(parts)
  );
  const less = Object.entries(before).map(
    ([name, seconds]): [StepPart, number] => [
      name as StepPart,
      seconds - (after[name as StepPart] ?? 0)
    ]
  );
  return less.reduce((one, other) => (other[1] > one[1] ? other : one));
}

/** Parts with waiting and moving as one, as in measurements without this distinction. */
function joined({
  waiting = 0,
  moving = 0,
  communication = 0,
  ...others
}: Parts): Parts {
  return { ...others, communication: communication + waiting + moving };
}
