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
  test,
  writeNotebook
} from '../support';

// All cells are in sight.
test.use({ viewport: { width: 1280, height: 3600 } });

const { step } = test;

const ENABLE = 'jupyter server extension enable workbench.server';

test('what needs no server is shown, and what is missing is named', async ({
  page
}) => {
  const { digits } = await fixedRuns();
  const bundle = await bundleOf(digits);
  const unsaved = { ...bundle, [RUN_TYPE]: { run: digits, name: 'digits' } };
  const path = writeNotebook(
    'saved',
    [bundle, unsaved].map(data => ({
      source: '%%dist_train',
      outputs: [{ output_type: 'display_data', data, metadata: {} }]
    }))
  );
  await openLab(page, path);
  const output = (cell: number) =>
    page
      .locator('.jp-Notebook .jp-CodeCell')
      .nth(cell)
      .locator('.jp-OutputArea');

  await step('a saved result is drawn all the same', async () => {
    const view = output(0).locator('.wb-run');
    await expect(view).toContainText('iteration 400 of 400');
    await expect(view.locator('canvas')).toHaveCount(2);
  });

  await step(
    'without a result, the picture is kept, with what enables more',
    async () => {
      await follow(output(1));
      await expect(output(1)).toContainText(ENABLE);
      await expect(output(1).locator('img')).toBeVisible();
    }
  );

  await step('the panel says what is missing', async () => {
    await command(page, 'workbench-lab:open-panel');

    await expect(page.locator('#workbench-lab-panel')).toContainText(
      /server extension/
    );
  });
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
