/** Two real ranks are measured from the panel; what they found stands in a tab. */
import {
  command,
  expect,
  expectResult,
  facts,
  isDirty,
  LOADING,
  openLab,
  openPanel,
  picture,
  runCells,
  runView,
  size,
  test,
  text,
  workbench,
  writeNotebook
} from '../support';

const { step } = test;

test.afterEach(async () => {
  await workbench('delete').catch(() => undefined);
});

test('two ranks of this machine are measured', async ({ page }) => {
  test.setTimeout(480_000);
  await openLab(page);
  const panel = await openPanel(page);
  await panel.getByRole('spinbutton', { name: 'Ranks' }).fill('2');
  await panel
    .getByRole('button', { name: /^Start( on this machine)?$/ })
    .click();
  await expect(panel).toContainText(size(2, 2), { timeout: 60_000 });

  await panel.getByRole('button', { name: 'Measure bandwidth' }).click();
  const bar = panel.getByRole('progressbar');
  await expect(bar).toBeVisible();
  await expect
    .poll(() => bar.evaluate(node => (node as HTMLProgressElement).value), {
      timeout: 60_000
    })
    .toBeGreaterThan(0);
  await picture(page, 'bandwidth-real-progress');

  const run = page.locator('.wb-tab:visible .wb-run');
  const survey = run.locator('.wb-survey');
  await expect(survey).toContainText('reaches', { timeout: 150_000 });
  await expect(survey).toContainText('so there is no link to measure');
  await expect(survey.locator('img')).toBeVisible();
  await expect(panel).toContainText('measured');
  await picture(page, 'bandwidth-real');
  const id = (await run.getAttribute('data-run')) as string;
  expect((await facts(id)).state).toBe('finished');

  const said = await workbench('bandwidth', '--last');
  expect(said).toContain('All ranks are on one node');
});

test('below a cell, progress makes way for the picture', async ({ page }) => {
  test.setTimeout(480_000);
  await workbench('up', '2');
  const path = writeNotebook('bandwidth', [LOADING, '%dist_bandwidth']);
  await openLab(page, path);
  await runCells(page, 2);

  await expect(runView(page)).toContainText(/step \d+ of \d+/, {
    timeout: 60_000
  });
  const survey = runView(page).locator('.wb-survey');
  await expect(survey).toContainText('so there is no link to measure', {
    timeout: 150_000
  });
  await picture(page, 'bandwidth-notebook');
  const bundle = await expectResult(path, 1);
  expect(text(bundle['text/plain'])).toContain('Allreduce');
  await expect.poll(() => isDirty(page)).toBe(false);

  await step('whose file nobody else changes', async () => {
    await page.waitForTimeout(15_000); // the kernel writes it after ten seconds without a page
    await command(page, 'docmanager:save');
    await expect(page.locator('.jp-Dialog')).toHaveCount(0);
  });
});
