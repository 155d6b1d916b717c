/** Runs in tabs: compared, restored, hidden, in two windows, with a million points. */
import {
  another,
  api,
  ask,
  expect,
  expectMore,
  expectState,
  facts,
  fixedRuns,
  openLab,
  openPanel,
  openRun,
  points,
  putCluster,
  reload,
  size,
  stopAll,
  test,
  type Locator,
  type Page
} from '../support';

const ENDLESS = { iterations: 10_000_000 };

test.afterEach(stopAll);

test('runs that are chosen in the panel are compared', async ({ page }) => {
  await fixedRuns();
  await openLab(page);
  const panel = await openPanel(page);

  await panel.getByLabel('Choose digits to compare').check();
  await panel.getByLabel('Choose digits slow to compare').check();
  await panel.getByRole('button', { name: 'Compare 2 runs' }).click();

  const tab = page.locator('.wb-tab:visible');
  await expect(tab.locator('canvas')).toHaveCount(2);
  await expect(tab.getByRole('row').filter({ hasText: 'rate' })).toContainText(
    '0.03'
  );
});

test('tabs and panel are there again after a reload', async ({ page }) => {
  const runs = await fixedRuns();
  await openLab(page);
  await openPanel(page);
  const isKept = page.waitForRequest(
    request =>
      request.method() === 'PUT' &&
      request.url().includes('api/workspaces') &&
      (request.postData() ?? '').includes(
        `workbench-lab-runs:${runs['digits']}`
      )
  );
  await openRun(page, runs['digits']);
  await (await isKept).response();

  await reload(page);

  await expect(page.locator('#workbench-lab-panel')).toBeVisible();
  await expect(page.locator('.wb-tab:visible .wb-run')).toContainText(
    'iteration 400 of 400'
  );
});

test('Stop in the list stops a run', async ({ page }) => {
  const id = await ask('listed', ENDLESS);
  await openLab(page);
  const panel = await openPanel(page);

  await panel.getByRole('button', { name: 'Stop listed' }).click();

  await expectState(id, 'stopped');
  await expect(
    panel.getByRole('listitem').filter({ hasText: 'listed' })
  ).toContainText('stopped');
});

test('of two wishes at once the later stands, and both pages show it', async ({
  page,
  browser
}) => {
  await putCluster(true);
  const pages = [page, await another(browser)];
  const wanted = ['1', '3'];
  const panels: Locator[] = [];
  for (const [i, one] of pages.entries()) {
    await openLab(one);
    const panel = await openPanel(one);
    await expect(panel).toContainText(size(2, 2));
    await panel.getByRole('checkbox', { name: 'More ranks than' }).check();
    await panel.getByRole('spinbutton', { name: 'Ranks' }).fill(wanted[i]);
    panels.push(panel);
  }

  const { revision } = await cluster();
  await Promise.all(
    panels.map(panel =>
      panel.getByRole('button', { name: 'Resize', exact: true }).click()
    )
  );

  await expect.poll(async () => (await cluster()).revision).toBe(revision + 2);
  const { ranks_asked: asked } = await cluster();
  for (const panel of panels) {
    await expect(panel).toContainText(size(asked, asked));
  }
  await pages[1].context().close();
  await putCluster(true);
});

test('a hidden page rests, and has all of the curve once it is seen', async ({
  page
}) => {
  const id = await ask('hidden', { ...ENDLESS, pace: 0.05 });
  await openLab(page);
  const run = await openRun(page, id);
  await expectMore(run, 0);

  await setHidden(page, true);
  await expect
    .poll(async () => {
      const before = await points(run);
      await expect
        .poll(async () => (await facts(id)).points)
        .toBeGreaterThan(before + 100);
      return (await points(run)) === before;
    })
    .toBe(true);
  await setHidden(page, false);

  await expectMore(run, (await facts(id)).points);
  await stopAll();
  await expectState(id, 'stopped');
  const { points: all } = await facts(id);
  await expect(run).toHaveAttribute('data-points', String(all));
});

// A matter of time, which is the machine's as well as ours: once a week.
test(
  'a million points are redrawn about ten times a second',
  { tag: '@weekly' },
  async ({ page }) => {
    const options = { points: 1_000_000, pace: 0.1, stride: 25 };
    const id = await ask('many', { ...ENDLESS, ...options });
    await openLab(page);
    const run = await openRun(page, id);
    await expectMore(run, 1_000_000, 60_000);

    const { updates, gap, seconds } = await run.evaluate(watch);

    expect(updates / seconds).toBeGreaterThan(5);
    expect(updates / seconds).toBeLessThan(13);
    expect(gap).toBeLessThan(300);
  }
);

async function cluster(): Promise<any> {
  return (await api('workbench/api/clusters')).clusters[0];
}

/** Count how often a view has more points within some seconds, and the longest frame. */
function watch(
  node: Element
): Promise<{ updates: number; gap: number; seconds: number }> {
  return new Promise(resolve => {
    let [updates, gap] = [0, 0];
    const observer = new MutationObserver(() => (updates += 1));
    observer.observe(node, { attributeFilter: ['data-points'] });
    const begun = performance.now();
    let before = begun;
    const look = () => {
      const now = performance.now();
      gap = Math.max(gap, now - before);
      before = now;
      if (now - begun < 3000) {
        requestAnimationFrame(look);
      } else {
        observer.disconnect();
        resolve({ updates, gap, seconds: (now - begun) / 1000 });
      }
    };
    requestAnimationFrame(look);
  });
}

/** Have the page believe that nobody sees it. */
async function setHidden(page: Page, isHidden: boolean): Promise<void> {
  await page.evaluate(isHidden => {
    const value = isHidden ? 'hidden' : 'visible';
    const get = <T>(value: T) => ({ configurable: true, get: () => value });
    Object.defineProperty(document, 'hidden', get(isHidden));
    Object.defineProperty(document, 'visibilityState', get(value));
    document.dispatchEvent(new Event('visibilitychange'));
  }, isHidden);
}
