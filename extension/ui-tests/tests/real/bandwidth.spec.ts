/** Two real ranks are measured from the panel; what they found stands in a tab. */
import {
  expect,
  facts,
  openLab,
  openPanel,
  picture,
  size,
  test,
  workbench
} from '../support';

test.afterEach(async () => {
  await workbench('down').catch(() => undefined);
});

test('two ranks of this machine are measured', async ({ page }) => {
  test.setTimeout(240_000);
  await openLab(page);
  const panel = await openPanel(page);
  await panel.getByRole('spinbutton', { name: 'Ranks' }).fill('2');
  await panel.getByRole('button', { name: 'Start', exact: true }).click();
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
  await expect(survey.locator('.wb-way path')).not.toHaveCount(0);
  await expect(panel).toContainText('measured');
  await picture(page, 'bandwidth-real');
  const id = (await run.getAttribute('data-run')) as string;
  expect((await facts(id)).state).toBe('finished');

  const said = await workbench('bandwidth', '--last');
  expect(said).toContain('All ranks are on one node');
});
