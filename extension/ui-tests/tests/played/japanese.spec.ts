/** Everything of ours in Japanese, where JupyterLab is. */
import {
  api,
  expect,
  fixedRuns,
  openLab,
  openPanel,
  openRun,
  picture,
  putCluster,
  test
} from '../support';

const SETTINGS = '@jupyterlab/translation-extension:plugin';

test('panel, run and commands are in Japanese', async ({ page }) => {
  const runs = await fixedRuns();
  await putCluster(true);
  await setLocale('ja_JP');
  try {
    await openLab(page);
    const panel = await openPanel(page);
    await expect(panel.getByRole('button', { name: 'Resize' })).toHaveCount(0);
    await expect(panel.locator('.wb-cluster')).toContainText(
      /[ぁ-んァ-ン一-龯]/
    );
    const run = await openRun(page, runs['digits']);
    await expect(run.locator('canvas')).toHaveCount(2);
    await expect(run).toContainText(/[ぁ-んァ-ン一-龯]/);
    const label = await page.evaluate(() =>
      (window as any).jupyterapp.commands.label('workbench-lab:open-panel')
    );
    expect(label).toMatch(/[ぁ-んァ-ン一-龯]/);
    await picture(page, 'japanese');
  } finally {
    await setLocale('default');
  }
});

/** Choose a language for the pages that are opened from now on. */
async function setLocale(locale: string): Promise<void> {
  const raw = JSON.stringify({ locale });
  await api(`lab/api/settings/${SETTINGS}`, 'PUT', { raw });
}
