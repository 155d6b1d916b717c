/** A Jupyter server that runs without our part. */
import {
  bundleOf,
  command,
  expect,
  expectBusy,
  fixedRuns,
  follow,
  LOADING,
  openLab,
  RUN_TYPE,
  runCells,
  runView,
  test,
  writeNotebook
} from '../support';

const ENABLE = 'jupyter server extension enable workbench.server';

test('the panel says what is missing', async ({ page }) => {
  await openLab(page);
  await command(page, 'workbench-lab:open-panel');

  await expect(page.locator('#workbench-lab-panel')).toContainText(
    /server extension/
  );
});

test('a saved result is drawn all the same', async ({ page }) => {
  const runs = await fixedRuns();
  const data = await bundleOf(runs['digits']);
  const outputs = [{ output_type: 'display_data', data, metadata: {} }];
  const path = writeNotebook('saved', [{ source: '%%dist_train', outputs }]);
  await openLab(page, path);

  await expect(runView(page)).toContainText('iteration 400 of 400');
  await expect(runView(page).locator('canvas')).toHaveCount(2);
});

test('a run that goes on is drawn by the kernel', async ({ page }) => {
  const path = writeNotebook('drawn', [
    LOADING,
    '%%dist_train --name drawn --param iterations=300 --param pace=0.025\npass'
  ]);
  await openLab(page, path);
  await runCells(page, 2);

  const output = page.locator('.jp-OutputArea', {
    has: page.locator('.wb-run')
  });
  await expect(output).toContainText(ENABLE);
  await expect(output.locator('img')).toBeVisible({ timeout: 30_000 });
  await expectBusy(path);
});

test('without a result, the picture stands and what enables more is told', async ({
  page
}) => {
  const runs = await fixedRuns();
  const bundle = await bundleOf(runs['digits']);
  const data = {
    ...bundle,
    [RUN_TYPE]: { run: runs['digits'], name: 'digits' }
  };
  const outputs = [{ output_type: 'display_data', data, metadata: {} }];
  const path = writeNotebook('unsaved', [{ source: '%%dist_train', outputs }]);
  await openLab(page, path);

  const output = page.locator('.jp-OutputArea');
  await follow(output);
  await expect(output).toContainText(ENABLE);
  await expect(output.locator('img')).toBeVisible();
});
