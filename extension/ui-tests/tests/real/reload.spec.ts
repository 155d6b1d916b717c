/** The page goes and comes while a cell blocks the kernel; the curve does not mind. */
import type { Browser, Page } from '@playwright/test';

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
  const path = writeNotebook('reload', [LOADING, training('reload', 240)]);
  await openLab(page, path);
  await runCells(page, 2);
  const view = runView(page);
  const third = await expectMore(view, 160, 60_000);
  await picture(page, 'run-view');
  expect(savedBundle(path, 1)).not.toBeNull(); // the extension saved it

  await reload(page);

  await expectBusy(path);
  const back = await expectMore(view, third);
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
  const path = writeNotebook('closed', [LOADING, training('closed', 100)]);
  await openLab(page, path);
  await runCells(page, 2);
  await expectMore(runView(page), 40, 60_000);

  await page.close();

  await expectState('closed', 'finished');
  await expectResult(path, 1, 40_000);
});

test('two browsers follow the same run', async ({ page, browser }) => {
  const path = writeNotebook('two', [LOADING, training('two', 320)]);
  const other = await followTwice(page, browser, path, 'two');
  for (const view of [runView(page), runView(other)]) {
    await expect(view).toHaveAttribute('data-points', '640');
  }
  expect((await facts('two')).points).toBe(640);
  await other.context().close();
});

test('the browser that did not execute the cell saves first', async ({
  page,
  browser
}) => {
  const path = writeNotebook('second', [LOADING, training('second', 320)]);
  const other = await followTwice(
    page,
    browser,
    path,
    'second',
    async other => {
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
  );
  await other.context().close();
});

/** Follow a run in two browsers to its end, where neither has anything to ask about. */
async function followTwice(
  page: Page,
  browser: Browser,
  path: string,
  run: string,
  prepare: (other: Page) => Promise<void> = async () => undefined
): Promise<Page> {
  await openLab(page, path);
  await runCells(page, 2);
  await expectMore(runView(page), 20, 60_000);
  const other = await another(browser);
  await openLab(other, path);
  await expectMore(runView(other), 20);
  await prepare(other);
  await expectMore(runView(page), await points(runView(other)));
  await expectState(run, 'finished');
  await expectResult(path, 1);
  // One saves, the other leaves it at that.
  for (const one of [page, other]) {
    await expect.poll(() => isDirty(one)).toBe(false);
    await expect(one.locator('.jp-Dialog')).toHaveCount(0);
  }
  return other;
}
