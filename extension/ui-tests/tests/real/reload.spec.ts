/** The page goes and comes while a cell blocks the kernel; the curve does not mind. */
import type { Page } from '@playwright/test';

import {
  another,
  expect,
  expectBusy,
  expectMore,
  expectResult,
  expectState,
  facts,
  isDirty,
  LOADING,
  openLab,
  picture,
  points,
  reload,
  runCells,
  runView,
  savedBundle,
  speedUp,
  test,
  text,
  training,
  workbench,
  writeNotebook
} from '../support';

test.beforeAll(async () => {
  await workbench('up', '2');
});

test('after a reload at a third, points grow and the result is kept', async ({
  page
}) => {
  const path = writeNotebook('reload', [LOADING, training('reload', 240, 100)]);
  await openLab(page, path);
  await runCells(page, 2);
  const view = runView(page);
  const third = await expectMore(view, 160, 60_000);
  await picture(page, 'run-view');
  expect(savedBundle(path, 1)).not.toBeNull(); // the extension saved it

  await reload(page);

  await expectBusy(path);
  const back = await expectMore(view, third);
  speedUp('reload');
  await expectMore(view, back + 20);
  await expectState('reload', 'finished');
  await expect(view).toHaveAttribute('data-points', '480');
  const bundle = await expectResult(path, 1);
  expect(text(bundle['text/plain'])).toContain('iteration 240 of 240');
  await picture(page, 'run-view-finished');
});

test('with no page at the end, the kernel keeps the result', async ({
  page
}) => {
  const path = writeNotebook('closed', [LOADING, training('closed', 100, 40)]);
  await openLab(page, path);
  await runCells(page, 2);
  await expectMore(runView(page), 40, 60_000);
  // The kernel completes what the file has; a page that closes earlier leaves nothing there.
  await expect.poll(() => savedBundle(path, 1)).not.toBeNull();

  await page.close();
  speedUp('closed');

  await expectState('closed', 'finished');
  await expectResult(path, 1, 40_000);
});

test('two browsers follow the same run, and either may save it first', async ({
  page,
  browser
}) => {
  const path = writeNotebook('two', [LOADING, training('two', 160, 40)]);
  await openLab(page, path);
  await runCells(page, 2);
  await expectMore(runView(page), 20, 60_000);

  const other = await another(browser);
  await openLab(other, path);

  await expectMore(runView(other), 20);
  await expectMore(runView(page), await points(runView(other)));
  await waitForSave(page, other);
  speedUp('two');
  await expectState('two', 'finished');
  for (const view of [runView(page), runView(other)]) {
    await expect(view).toHaveAttribute('data-points', '320');
  }
  await expectResult(path, 1);
  // The page that executed the cell has a number in it that the file lacks: that is no question.
  for (const one of [page, other]) {
    await expect.poll(() => isDirty(one)).toBe(false);
    await expect(one.locator('.jp-Dialog')).toHaveCount(0);
  }
  await other.context().close();
  expect((await facts('two')).points).toBe(320);
});

/** Let `page` save a notebook only after `other` has done so. */
async function waitForSave(page: Page, other: Page): Promise<void> {
  const saved = other.waitForResponse(
    response =>
      response.request().method() === 'PUT' &&
      response.url().includes('/api/contents/')
  );
  await page.route('**/turns/**', async route => {
    await saved;
    await route.continue();
  });
}
