/** A sweep is seen while it runs: below its cell, in the panel, in a tab, and in the saved notebook. */
import {
  command,
  expect,
  LOADING,
  openLab,
  openPanel,
  pace,
  picture,
  runCells,
  savedOutputs,
  speedUp,
  test,
  text,
  workbench,
  writeNotebook
} from '../support';

const SWEEP = `%%dist_sweep --name fit --ranks-per-trial 1 --minimize loss --param lr=[0.1,0.2,0.3,0.4]
import os, time, workbench
for i in range(121 if lr > 0.2 else 11):
    time.sleep(${pace('fit', 'lr', 0.2)})
    workbench.report(loss=(lr - 0.2) ** 2)`;

/** On a machine with one slot, a trial runs alone. */
const UNDER_WAY = /[12] running, 2 finished of 4 trials/;

test.describe.configure({ mode: 'serial', timeout: 300_000 });
test.use({ viewport: { width: 1280, height: 1600 } });

test.afterAll(async () => {
  await workbench('delete').catch(() => undefined);
});

test('a sweep is a live table and picture, and stays in the notebook', async ({
  page
}) => {
  const path = writeNotebook('sweep', [LOADING, SWEEP]);
  await openLab(page, path);
  await runCells(page, 2);
  const output = page
    .locator('.jp-Notebook .jp-CodeCell')
    .nth(1)
    .locator('.jp-OutputArea');

  // The first two trials are quick, and the others slow until they are seen.
  await expect(output).toContainText(UNDER_WAY, { timeout: 120_000 });
  await expect(output.locator('img')).toBeVisible();
  await expect(output.locator('tbody tr').first()).toContainText('finished');
  await picture(page, 'sweep-live');

  const panel = await openPanel(page);
  await panel.locator('.wb-sweeps button').click();
  const tab = page.locator('.wb-sweep:visible');
  await expect(tab).toContainText(UNDER_WAY);
  await expect(tab.locator('tbody tr').first()).toContainText('finished');
  speedUp('fit');
  await expect(tab).toContainText('All 4 trials have ended.', {
    timeout: 60_000
  });
  await expect(tab).toContainText('The best is trial 1');
  await expect(tab.locator('img')).toBeVisible();
  await picture(page, 'sweep-tab');

  await page.getByRole('tab', { name: path }).click();
  await expect(output).toContainText('The best is trial 1');
  await command(page, 'docmanager:save');
  const saved = () =>
    savedOutputs(path, 1).find(one => one.data?.['image/png'])?.data ?? {};
  await expect
    .poll(() => text(saved()['text/plain'] ?? ''), { timeout: 30_000 })
    .toContain('The best is trial 1');
  expect(text(saved()['image/png'])).toMatch(/^iVBOR/);
  expect(text(saved()['text/html'])).toMatch(/<img alt="4 trials of fit/);
});
