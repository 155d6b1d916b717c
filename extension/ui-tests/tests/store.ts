/** What is in the store: one process reads and writes it for all tests. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

import { expect } from '@playwright/test';

export const PYTHON = given('WORKBENCH_UI_PYTHON');
export const PLAYER = given('WORKBENCH_UI_PLAYER');

/** A variable of the environment that has to be there. */
export function given(name: string): string {
  const value = process.env[name];
  if (!value) {
    throw new Error(`${name} is not set: pytest -m browser runs these specs`);
  }
  return value;
}

/** A process that answers a line with a line, one after the other. */
class Answers {
  private readonly process: ChildProcessWithoutNullStreams;
  private readonly lines: AsyncIterator<string>;
  private before: Promise<unknown> = Promise.resolve();

  constructor(command: string, ...words: string[]) {
    this.process = spawn(command, words);
    this.process.stderr.pipe(process.stderr);
    const lines = createInterface({ input: this.process.stdout });
    this.lines = lines[Symbol.asyncIterator]();
  }

  async ask(words: string[]): Promise<any> {
    const answer = this.before.then(() => this.exchange(words));
    this.before = answer.catch(() => undefined);
    return answer;
  }

  async close(): Promise<void> {
    const ended = once(this.process, 'exit');
    this.process.stdin.end();
    await ended;
  }

  private async exchange(words: string[]): Promise<any> {
    this.process.stdin.write(`${JSON.stringify(words)}\n`);
    const { value, done } = await this.lines.next();
    if (done) {
      throw new Error(`no answer to ${words.join(' ')}`);
    }
    const { answer, error } = JSON.parse(value);
    if (error) {
      throw new Error(error);
    }
    return answer;
  }
}

let answers: Answers | null = null;

function player(...words: string[]): Promise<any> {
  answers ??= new Answers(PYTHON, PLAYER, 'answer');
  return answers.ask(words);
}

/** End the process that reads and writes the store. */
export async function closeStore(): Promise<void> {
  await answers?.close();
  answers = null;
}

interface IFacts {
  id: string;
  name: string;
  state: string;
  iteration: number;
  points: number;
}

/** What the store has of a run. */
export async function facts(run: string): Promise<IFacts> {
  return player('facts', run);
}

/** Wish for a cluster of so many ranks, after the run that trains. */
export async function resizeAfter(ranks: number): Promise<void> {
  await player('resize', `${ranks}`);
}

/** Wish for a run that the player plays. */
export async function ask(
  name: string,
  options: { [name: string]: number } = {}
): Promise<string> {
  const words = Object.entries(options).map(
    ([key, value]) => `${key}=${value}`
  );
  return player('ask', name, ...words);
}

/** Stop whatever is played. */
export async function stopAll(): Promise<void> {
  await player('stop');
}

/** Wish for the player's cluster to be up, or down. */
export async function putCluster(up: boolean): Promise<void> {
  await player('cluster', `up=${Number(up)}`);
}

/** The runs that are the same every time: names to ids. */
export async function fixedRuns(): Promise<{ [name: string]: string }> {
  return player('fixed');
}

/** Runs that are hard to draw well: names to ids. */
export async function oddRuns(): Promise<{ [name: string]: string }> {
  return player('odd');
}

/** Have the player's cluster measured yesterday, when all was well; the run that did it. */
export async function measuredBefore(): Promise<string> {
  return player('measured');
}

/** What stays of a run in a saved notebook. */
export async function bundleOf(run: string): Promise<any> {
  return player('bundle', run);
}

/** Wait until a run is there, and in a state. */
export async function expectState(run: string, state: string): Promise<void> {
  await expect
    .poll(() => player('state', run), {
      timeout: 180_000,
      intervals: [250],
      message: `run ${run}`
    })
    .toBe(state);
}
