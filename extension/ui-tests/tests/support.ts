/** What the specs share: pages, notebooks, runs, and what is in the store and on the disk. */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

import {
  expect,
  test as base,
  type Browser,
  type Locator,
  type Page
} from '@playwright/test';

import { given, PLAYER, PYTHON, closeStore } from './store';

export { expect, type Locator, type Page };
export {
  ask,
  bundleOf,
  expectState,
  facts,
  fixedRuns,
  measuredBefore,
  oddRuns,
  putCluster,
  resizeAfter,
  stopAll
} from './store';

export const RUN_TYPE = 'application/vnd.workbench.run+json';
export const WIDGET_TYPE = 'application/vnd.jupyter.widget-view+json';
export const THEMES = {
  light: 'JupyterLab Light',
  dark: 'JupyterLab Dark',
  contrast: 'JupyterLab Dark High Contrast'
};

export const TOKEN = given('WORKBENCH_UI_TOKEN');
const ROOT = given('WORKBENCH_UI_ROOT');
const GALLERY = join(dirname(PLAYER), '..', 'view', 'gallery.py');
const SERVER = given('WORKBENCH_UI_PID');
const PICTURES = process.env.WORKBENCH_UI_PICTURES;

/** In which JupyterLab loads on a busy machine. */
const LOAD_MILLISECONDS = 60_000;

/** Whether somebody looks at the pictures: a page need not be dressed for nobody. */
export const KEEPS_PICTURES = Boolean(PICTURES);

/** What only ours has in it; a checkout's folder may be called workbench. */
const OURS = /workbench-lab|workbench\/api|workbench:|\bwb-/i;

/** A number of words that ours may be said in, or that a cut connection makes a browser say. */
const NETWORK =
  /Failed to load resource|WebSocket connection|ERR_|NetworkError/;

/** What this test's pages complained of, and their requests without an answer, with the reason. */
const errors: string[] = [];
const failed: string[] = [];

/** Tests that leave no kernel, and whose pages must not throw, nor complain of what is ours. */
export const test = base.extend<
  { errors: string[]; kernels: void },
  { store: void }
>({
  store: [
    async ({}, use) => {
      await use();
      await closeStore();
    },
    { auto: true, scope: 'worker' }
  ],
  kernels: [
    async ({}, use) => {
      await use();
      for (const { id } of await api('api/sessions')) {
        await api(`api/sessions/${id}`, 'DELETE');
      }
    },
    { auto: true }
  ],
  errors: [
    async ({ context }, use) => {
      errors.length = failed.length = 0;
      context.on('requestfailed', request => {
        failed.push(`${request.url()} ${request.failure()?.errorText}`);
      });
      context.on('weberror', event => {
        const { message, stack = '' } = event.error();
        if (OURS.test(message + stack)) {
          errors.push(stack || message);
        }
      });
      context.on('console', message => {
        const text = message.text();
        if (
          message.type() === 'error' &&
          OURS.test(text + message.location().url) &&
          !NETWORK.test(text)
        ) {
          errors.push(text);
        }
      });
      await use(errors);
      expect(errors, 'what pages complained of').toEqual([]);
    },
    { auto: true }
  ]
});

// -- pages

/** Open JupyterLab on a workspace of its own; `path` is a file, or nothing. */
export async function openLab(page: Page, path = ''): Promise<void> {
  const tree = path ? `/tree/${path}` : '';
  await visit(page, `lab/workspaces/${randomUUID()}${tree}`);
  if (!path) {
    // It opens last of all, and takes the focus from whatever has it by then.
    await expect(page.locator('.jp-Launcher')).toBeFocused();
  }
}

/** Open a page of the server. */
export async function visit(page: Page, path: string): Promise<void> {
  // JupyterLab gives a theme 1.5 seconds, and a busy machine may take longer.
  await dismiss(page, 'Error Loading Theme', 'OK');
  // One request that fails opens this over the page, though the next one succeeds.
  await dismiss(page, 'Server Connection Error', 'Close');
  await page.goto(`${path}?token=${TOKEN}`);
  await untilReady(page);
}

/** Press a button of a dialog whenever it covers what the test wants to use. */
async function dismiss(
  page: Page,
  title: string,
  button: string
): Promise<void> {
  const dialog = page.getByRole('dialog', { name: title });
  await page.addLocatorHandler(dialog, shown =>
    shown.getByRole('button', { name: button }).click()
  );
}

/**
 * Wait until JupyterLab has opened what it opens at first.
 *
 * Where a request for JupyterLab's own settings fails it never does, nor does what needs them; a person loads the page
 * again.
 */
export async function untilReady(page: Page): Promise<void> {
  let isReady = await isRestored(page);
  if (!isReady && failed.some(one => one.includes('lab/api/settings'))) {
    console.log(`The page is loaded again: ${failed.join(', ')}.`);
    const others = errors.filter(one => !one.includes('Failed to fetch'));
    errors.splice(0, errors.length, ...others);
    await page.reload();
    isReady = await isRestored(page);
  }
  expect(isReady, failed.join(', ')).toBe(true);
  await expect(page.locator('#jupyterlab-splash')).toHaveCount(0);
}

async function isRestored(page: Page): Promise<boolean> {
  await page.waitForFunction(() => 'jupyterapp' in window, undefined, {
    timeout: LOAD_MILLISECONDS
  });
  return page.evaluate(
    limit =>
      Promise.race([
        (window as any).jupyterapp.restored.then(() => true),
        new Promise(resolve => setTimeout(() => resolve(false), limit))
      ]),
    LOAD_MILLISECONDS
  );
}

/** Load the page again, whatever it wants to ask. */
export async function reload(page: Page): Promise<void> {
  const accept = (dialog: { accept: () => Promise<void> }) => dialog.accept();
  page.on('dialog', accept);
  await page.reload();
  page.off('dialog', accept);
  await untilReady(page);
}

/** A page of another browser than the test's own. */
export async function another(browser: Browser): Promise<Page> {
  return (await browser.newContext()).newPage();
}

/** Execute a command of JupyterLab, as its menu would. */
export async function command(
  page: Page,
  id: string,
  args: object = {}
): Promise<void> {
  await page.evaluate(
    ([id, args]) => (window as any).jupyterapp.commands.execute(id, args),
    [id, args] as const
  );
}

/** Press a command's keys, as soon as JupyterLab has read that they are the command's. */
export async function pressKeysOf(
  page: Page,
  id: string,
  keys: string
): Promise<void> {
  await page.waitForFunction(
    id =>
      (window as any).jupyterapp.commands.keyBindings.some(
        (binding: { command: string }) => binding.command === id
      ),
    id
  );
  await page.keyboard.press(keys);
}

/** The panel at the left, opened. */
export async function openPanel(page: Page): Promise<Locator> {
  await command(page, 'workbench-lab:open-panel');
  const panel = page.locator('#workbench-lab-panel');
  await expect(panel).toBeVisible();
  return panel;
}

/** What the panel says of a cluster's size. */
export function size(actual: number | string, asked: number): string {
  return `Ranks${actual} of ${asked}`;
}

/** A run in a tab of its own, opened. */
export async function openRun(page: Page, id: string): Promise<Locator> {
  await command(page, 'workbench-lab:open-run', { id });
  const run = page.locator('.wb-tab:visible .wb-run');
  await expect(run).toBeVisible();
  return run;
}

/** Change the theme, again where the server has just closed the page's connection. */
export async function setTheme(page: Page, theme: string): Promise<void> {
  await expect(async () => {
    await command(page, 'apputils:change-theme', { theme });
  }).toPass({ timeout: 30_000 });
  await expect(page.locator('body')).toHaveAttribute(
    'data-jp-theme-name',
    theme
  );
}

/** Have the page use fonts that every machine of the tests has. */
export async function fixFonts(page: Page): Promise<void> {
  await page.addInitScript(() => {
    const add = () => {
      const style = document.createElement('style');
      style.textContent = `
        :root, body {
          --jp-ui-font-family: 'DejaVu Sans' !important;
          --jp-content-font-family: 'DejaVu Sans' !important;
          --jp-code-font-family: 'DejaVu Sans Mono' !important;
          --jp-code-font-family-default: 'DejaVu Sans Mono' !important;
        }
        *, *::before, *::after { transition: none !important; caret-color: transparent !important; }`;
      document.head.append(style);
    };
    if (document.head) {
      add();
    } else {
      document.addEventListener('DOMContentLoaded', add);
    }
  });
}

/** Keep a picture for somebody to look at, where that was asked for. */
export async function picture(
  target: Page | Locator,
  name: string
): Promise<void> {
  if (PICTURES) {
    mkdirSync(PICTURES, { recursive: true });
    await target.screenshot({ path: join(PICTURES, `${name}.png`) });
  }
}

// -- notebooks

export const LOADING = '%load_ext workbench';

/** A cell that trains on real ranks, with iterations of 0.05 seconds (see `pace`). */
export function training(
  name: string,
  iterations: number,
  slowAfter = iterations
): string {
  return `%%dist_train --name ${name}
import os, time, workbench
from mpi4py import MPI
rank = MPI.COMM_WORLD.rank
for i in range(1, ${iterations} + 1):
    time.sleep(${pace(name, 'i', slowAfter)})
    workbench.report(loss=1 / i + rank / 10, total=${iterations})
print('trained')`;
}

/**
 * The seconds of an iteration, as Python: 0.05, and 0.5 after iteration `slowAfter` until
 * `speedUp`, so that a run does not end before a slow machine's browser has seen it.
 */
export function pace(
  name: string,
  iteration: string,
  slowAfter: number
): string {
  rmSync(fileOfSpeed(name), { force: true }); // of a first try
  return `0.5 if ${iteration} > ${slowAfter} and not os.path.exists('${fileOfSpeed(name)}') else 0.05`;
}

/** Have a training's iterations last 0.05 seconds again. */
export function speedUp(name: string): void {
  writeFileSync(fileOfSpeed(name), '');
}

function fileOfSpeed(name: string): string {
  return join(ROOT, `${name}.speed`);
}

/** Write a notebook; each cell is its text, or its text and outputs. */
export function writeNotebook(
  name: string,
  cells: (string | { source: string; outputs: object[] })[],
  kernel = 'python3'
): string {
  const path = `${name}.ipynb`;
  const notebook = {
    cells: cells.map((cell, number) => {
      const { source, outputs } =
        typeof cell === 'string' ? { source: cell, outputs: [] } : cell;
      return {
        cell_type: 'code',
        execution_count: null,
        id: `cell-${number}`,
        metadata: {},
        outputs,
        source
      };
    }),
    metadata: {
      kernelspec: { display_name: kernel, language: 'python', name: kernel }
    },
    nbformat: 4,
    nbformat_minor: 5
  };
  writeFileSync(join(ROOT, path), JSON.stringify(notebook, null, 1));
  return path;
}

/** The outputs of a cell as they are on the disk; none while the file is being written. */
export function savedOutputs(path: string, cell: number): any[] {
  try {
    const written = readFileSync(join(ROOT, path), 'utf-8');
    return JSON.parse(written).cells[cell].outputs;
  } catch {
    return [];
  }
}

/** What the file holds of the run that a cell shows; null where it holds none. */
export function savedBundle(path: string, cell: number): any {
  const shown = savedOutputs(path, cell).map(output => output.data ?? {});
  return shown.find(data => RUN_TYPE in data) ?? null;
}

/** Wait until the file holds a run's result, and check all that a reader elsewhere needs of it. */
export async function expectResult(
  path: string,
  cell: number,
  timeout = 20_000
): Promise<any> {
  await expect
    .poll(() => Boolean(savedBundle(path, cell)?.[RUN_TYPE].saved), {
      timeout,
      message: `the result in ${path}`
    })
    .toBe(true);
  const bundle = savedBundle(path, cell);
  expect(text(bundle['image/png'])).toMatch(/^iVBOR/);
  expect(text(bundle['text/html'])).toMatch(/<img alt="[^"]+"/);
  expect(text(bundle['text/plain'])).not.toBe('');
  expect(text(bundle[RUN_TYPE].saved.frame).length).toBeLessThan(100_000);
  const kinds = savedOutputs(path, cell).flatMap(output =>
    Object.keys(output.data ?? {})
  );
  expect(kinds).not.toContain(WIDGET_TYPE);
  return bundle;
}

/** What a notebook's file has as a string, or in lines. */
export function text(value: string | string[]): string {
  return Array.isArray(value) ? value.join('') : value;
}

/**
 * Run the cells from the first on, as a person does; the first is over soon.
 *
 * JupyterLab loses what is said to a kernel that it is just connecting to, now and then, and a
 * person says it again.
 */
export async function runCells(page: Page, count: number): Promise<void> {
  const first = page.locator('.jp-Notebook .jp-CodeCell').first();
  let tries = 0;
  await expect(async () => {
    // A kernel that has just started may never answer what it was asked first,
    // nor what the same connection asks later.
    if (tries++) {
      await reconnect(page);
    }
    const isIdle = expect.poll(() => kernelStatus(page), { timeout: 8_000 });
    await isIdle.toBe('idle').catch(() => reconnect(page));
    await first.locator('.cm-content').click();
    await page.keyboard.press('Shift+Enter');
    const prompt = first.locator('.jp-InputPrompt');
    await expect(prompt).toHaveText(/\[\d+\]:/, { timeout: 4_000 });
  }).toPass({ timeout: 180_000 });
  for (let cell = 1; cell < count; cell++) {
    await page.keyboard.press('Shift+Enter');
  }
}

function kernelStatus(page: Page): Promise<string> {
  return page.evaluate(() => {
    const { currentWidget } = (window as any).jupyterapp.shell;
    return currentWidget?.sessionContext?.session?.kernel?.status ?? '';
  });
}

/** Whether the notebook in front has changes that are not saved. */
export function isDirty(page: Page): Promise<boolean> {
  return page.evaluate(
    () => (window as any).jupyterapp.shell.currentWidget.context.model.dirty
  );
}

async function reconnect(page: Page): Promise<void> {
  await page.evaluate(() => {
    const { currentWidget } = (window as any).jupyterapp.shell;
    return currentWidget?.sessionContext?.session?.kernel?.reconnect();
  });
}

/** See that the notebook's kernel is busy. */
export async function expectBusy(path: string): Promise<void> {
  const { kernel } = await sessionOf(path);
  expect(kernel.execution_state).toBe('busy');
}

// -- the run view

/** The run view below the cells of the notebook. */
export function runView(page: Page): Locator {
  return page.locator('.jp-OutputArea .wb-run');
}

/** Ask for the run that an untrusted notebook names. */
export async function follow(output: Locator): Promise<void> {
  await output.getByRole('button', { name: 'Follow this run' }).click();
}

/** How many points a view says it has. */
export async function points(view: Locator): Promise<number> {
  return Number((await view.getAttribute('data-points')) ?? 0);
}

/** Wait until a view has more than `count` points. */
export async function expectMore(
  view: Locator,
  count: number,
  timeout = 20_000
): Promise<number> {
  await expect
    .poll(() => points(view), { timeout, message: `more than ${count} points` })
    .toBeGreaterThan(count);
  return points(view);
}

/** Move a curve's cursor back from its end, until what it says matches. */
export async function moveBackTo(
  cursor: Locator,
  pattern: RegExp
): Promise<void> {
  await cursor.press('End');
  await expect
    .poll(async () => {
      const said = (await cursor.getAttribute('aria-valuetext')) ?? '';
      if (!pattern.test(said)) {
        await cursor.press('PageDown');
      }
      return said;
    })
    .toMatch(pattern);
}

// -- a shell

/** All that we display as HTML, by the name of what makes it. */
export async function gallery(): Promise<{ [name: string]: string }> {
  shown ??= python(GALLERY);
  return JSON.parse(await shown);
}

/** It is always the same. */
let shown: Promise<string> | null = null;

/** Say something in a shell. */
export async function workbench(...words: string[]): Promise<string> {
  return python('-m', 'workbench.cli', ...words);
}

async function python(...words: string[]): Promise<string> {
  const most = { maxBuffer: 16_000_000 };
  const { stdout } = await promisify(execFile)(PYTHON, words, most);
  return stdout;
}

// -- the server

/** Ask the server as a script would. */
export async function api(
  path: string,
  method = 'GET',
  content?: object
): Promise<any> {
  const url = new URL(path, given('WORKBENCH_UI_URL'));
  const headers = { Authorization: `token ${TOKEN}` };
  const body = content && JSON.stringify(content);
  const response = await fetch(url, { method, headers, body });
  return response.status === 204 ? null : response.json();
}

/** End the server; somebody starts it again. */
export async function restartServer(): Promise<void> {
  const before = readFileSync(SERVER, 'utf-8');
  process.kill(Number(before), 'SIGTERM');
  await expect
    .poll(() => readFileSync(SERVER, 'utf-8'), { timeout: 30_000 })
    .not.toBe(before);
}

async function sessionOf(path: string): Promise<any> {
  const sessions: any[] = await api('api/sessions');
  return sessions.find(session => session.path === path);
}

/** End a notebook's kernel as the system does that lacks memory. */
export async function killKernel(path: string): Promise<void> {
  const { kernel } = await sessionOf(path);
  const found = await promisify(execFile)('pgrep', ['-f', kernel.id]);
  process.kill(Number(found.stdout.trim().split('\n')[0]), 'SIGKILL');
}
