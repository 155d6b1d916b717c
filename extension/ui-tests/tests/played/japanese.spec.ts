/** Everything of ours in Japanese, where JupyterLab is. */
import {
  expect,
  fixedRuns,
  openLab,
  openPanel,
  openRun,
  picture,
  putCluster,
  reload,
  test
} from '../support';

const SETTINGS = '@jupyterlab/translation-extension:plugin';

test('panel, run and commands are in Japanese', async ({ page }) => {
  const runs = await fixedRuns();
  await putCluster(true);
  await openLab(page);
  await setLocale('ja_JP');
  try {
    await reload(page);
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

  async function setLocale(locale: string): Promise<void> {
    await page.evaluate(
      async ([plugin, locale]) => {
        const { settings } = (window as any).jupyterapp.serviceManager;
        await settings.save(plugin, JSON.stringify({ locale }));
      },
      [SETTINGS, locale] as const
    );
  }
});
