/** Notebook 7: one document a page, and nothing of JupyterLab around it. */
import {
  expect,
  expectMore,
  LOADING,
  picture,
  runCells,
  runView,
  test,
  visit,
  writeNotebook
} from '../support';

test('curves grow below a cell that blocks', async ({ page }) => {
  const path = writeNotebook('plain', [
    LOADING,
    '%%dist_train --name plain --param iterations=300 --param pace=0.03\npass'
  ]);
  await visit(page, `notebooks/${path}`);
  await runCells(page, 2);

  const view = runView(page);
  const before = await expectMore(view, 0, 30_000);
  await expectMore(view, before);
  await picture(page, 'notebook7');

  await expect(view).toContainText('finished', { timeout: 30_000 });
});

test('the page of files complains of nothing', async ({ page }) => {
  await visit(page, 'tree');

  await expect(page.locator('.jp-DirListing').first()).toBeVisible();
});
