/** A newcomer's first hour, in the order of README: each step in the notebook of the one before. */
import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import {
  command,
  expect,
  expectMore,
  expectResult,
  expectState,
  facts,
  KEEPS_PICTURES,
  LOADING,
  openLab,
  picture,
  points,
  reload,
  runCells,
  runView,
  setTheme,
  speedUp,
  test,
  THEMES,
  training,
  workbench,
  writeNotebook,
  type Locator,
  type Page
} from '../support';

const ROOT = join(__dirname, '../../../..');

const FAILING = `%%dist_train --name failing
from mpi4py import MPI
comm = MPI.COMM_WORLD
if comm.rank == 1:
    raise ValueError('the labels are 10 too few')
comm.barrier()`;

const HANGING = `%%dist_train --name hanging
from mpi4py import MPI
comm = MPI.COMM_WORLD
if comm.rank == 0:
    comm.allreduce(1)
else:
    import time
    time.sleep(600)`;

test.describe.configure({ mode: 'serial', timeout: 480_000 });
test.use({ viewport: { width: 1280, height: 1600 } });

/** The cells of README, as a reader copies them. */
function readme(): string[] {
  const text = readFileSync(join(ROOT, 'README.md'), 'utf-8');
  return [...text.matchAll(/^```python\n([^]*?)\n```$/gm)].map(
    found => found[1]
  );
}

function cell(page: Page, number: number): Locator {
  return page.locator('.jp-Notebook .jp-CodeCell').nth(number);
}

/** Look at the page in both themes, and on a narrow screen. */
async function pictures(page: Page, name: string): Promise<void> {
  if (!KEEPS_PICTURES) {
    return;
  }
  await page.mouse.move(0, 0);
  await picture(page, `first-hour-${name}`);
  await setTheme(page, THEMES.dark);
  await picture(page, `first-hour-${name}-dark`);
  await setTheme(page, THEMES.light);
  const before = page.viewportSize()!;
  await page.setViewportSize({ width: 700, height: before.height });
  await picture(page, `first-hour-${name}-narrow`);
  await page.setViewportSize(before);
}

test.beforeAll(async () => {
  await workbench('delete').catch(() => undefined);
});

test.afterAll(async () => {
  await workbench('delete', '--cluster', 'spot').catch(() => undefined);
});

test('README’s cell trains, prints its table, and has one verdict', async ({
  page
}) => {
  const path = writeNotebook('first', readme().slice(0, 2));
  await openLab(page, path);
  await runCells(page, 2);
  await expectState('digits', 'finished');

  const output = cell(page, 1).locator('.jp-OutputArea');
  await expect(output).toContainText('main/accuracy');
  await expect(output).toContainText(/\n100 +0\.0\d+ +(1|0\.9\d+)/);
  await expect(output).not.toContainText(/nodes/);
  const bundle = await expectResult(path, 1);
  await pictures(page, 'finished');

  const before = await sentences(runView(page));
  expect(before.length).toBeGreaterThan(1);
  await reload(page);
  await expect.poll(() => sentences(runView(page))).toEqual(before);
  expect(bundle['text/plain'].toString()).toContain('finished');
});

/** What a view says of a run: its state line, and what bounded it. */
async function sentences(view: Locator): Promise<string[]> {
  return view.locator('.wb-stateline, .wb-verdict').allInnerTexts();
}

test(
  'a run outlives a restart of the kernel',
  { tag: '@weekly' }, // a killed kernel and a reload are tried daily
  async ({ page }) => {
    const path = writeNotebook('restarted', [
      LOADING,
      training('outlives', 160, 40)
    ]);
    await openLab(page, path);
    await runCells(page, 2);
    await expectMore(runView(page), 60, 60_000);

    const restarted = command(page, 'notebook:restart-kernel');
    await page.locator('.jp-Dialog .jp-mod-accept').click();
    await restarted;
    await expect(page.locator('.jp-Dialog')).toHaveCount(0);

    const then = await points(runView(page));
    speedUp('outlives');
    await expectMore(runView(page), then + 100);
    await expectState('outlives', 'finished');
    expect((await facts('outlives')).points).toBe(320);
  }
);

test(
  'a rank that fails shows one traceback, and a hang says who waits',
  { tag: '@weekly' }, // ranks, kernels and drawn views are each tried daily
  async ({ page }) => {
    const path = writeNotebook('trouble', [LOADING, FAILING, HANGING]);
    await openLab(page, path);
    await runCells(page, 2);
    await expectState('failing', 'failed');
    const failed = cell(page, 1).locator('.jp-OutputArea');
    await expect(failed).toContainText('the labels are 10 too few');
    const shown = await failed.innerText();
    expect(
      shown.split('Traceback (most recent call last)').length - 1
    ).toBeLessThan(2);
    expect(shown).not.toContain('site-packages');
    await picture(page, 'first-hour-failing');

    // What is asked before that is dropped with the cell that failed.
    await expect(cell(page, 1).locator('.jp-InputPrompt')).toHaveText('[2]:');
    await cell(page, 2).locator('.cm-content').click();
    await page.keyboard.press('Shift+Enter');
    const hang = cell(page, 2).locator('.wb-hang');
    await expect(hang).toContainText('Rank 0', { timeout: 60_000 });
    await expect(hang).toContainText('allreduce');
    await expect(hang).toContainText('rank 1');
    await pictures(page, 'hanging');
    await cell(page, 2)
      .getByRole('button', { name: 'Stop', exact: true })
      .click();
    await expectState('hanging', 'stopped');
    await expect(hang).toContainText('allreduce');
    await picture(page, 'first-hour-hang-stopped');
  }
);

test(
  'two runs beside each other',
  { tag: '@weekly' }, // played runs are compared daily
  async ({ page }) => {
    await openLab(page);
    const ids = [(await facts('digits')).id, (await facts('outlives')).id];
    await command(page, 'workbench-lab:compare-runs', { ids });
    await expect(page.locator('.wb-tab:visible canvas').first()).toBeVisible();
    await pictures(page, 'compared');
  }
);

test(
  'the tutorial of spot nodes works after README',
  { tag: '@weekly' },
  async ({ page }) => {
    const name = '03_spot_cluster.ipynb';
    copyFileSync(
      join(ROOT, 'notebooks', name),
      join(process.env.WORKBENCH_UI_ROOT!, name)
    );
    await openLab(page, name);
    await runCells(page, 6); // of which two are text
    await expect
      .poll(async () => (await facts('three').catch(() => null))?.state, {
        timeout: 180_000,
        intervals: [1_000]
      })
      .toBe('finished');
    await expect(runView(page).last()).toContainText('finished');
    await picture(page, 'first-hour-tutorial');
  }
);
