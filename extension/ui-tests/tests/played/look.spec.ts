/** Themes: colours follow, no barrier for anybody, and what a person sees is what it was. */
import AxeBuilder from '@axe-core/playwright';

import {
  another,
  ask,
  command,
  expect,
  expectState,
  fixedRuns,
  fixFonts,
  openLab,
  openPanel,
  openRun,
  picture,
  setTheme,
  size,
  test,
  THEMES,
  type Locator,
  type Page
} from '../support';

let page: Page;
let runs: { [name: string]: string };

test.beforeAll(async ({ browser }) => {
  runs = await fixedRuns();
  await expectState(await ask('warm', { iterations: 1 }), 'finished');
  page = await another(browser);
  await fixFonts(page);
  await openLab(page);
});

test.afterAll(async () => {
  await setTheme(page, THEMES.light);
  await page.context().close();
});

for (const [name, theme] of Object.entries(THEMES)) {
  test(`${name}: the panel`, async () => {
    await setTheme(page, theme);
    const panel = await openPanel(page);
    const card = panel.getByRole('region', { name: 'default' });
    await expect(card).toContainText(size(2, 2));
    const row = panel.getByRole('listitem').filter({ hasText: 'digits slow' });
    await expect(row).toBeVisible();

    await expectAccessible('#workbench-lab-panel');
    await looks(card, `cluster-${name}`);
    await looks(row, `listed-run-${name}`);
    await picture(page, `panel-${name}`);
  });

  test(`${name}: a run`, async () => {
    const run = await openRun(page, runs['digits']);
    await expect(run).toContainText('finished');
    await expect(run.locator('.wb-chart canvas')).toHaveCount(2);

    await expectAccessible('.wb-tab');
    await looks(run, `run-${name}`);
  });

  test(`${name}: a run that failed`, async () => {
    const run = await openRun(page, runs['digits broken']);
    await expect(run).toContainText('ValueError: loss is nan');

    await expectAccessible('.wb-tab');
    await looks(run, `failed-run-${name}`);
  });

  test(`${name}: two runs compared`, async () => {
    const ids = [runs['digits'], runs['digits slow']];
    await command(page, 'workbench-lab:compare-runs', { ids });
    const tab = page.locator('.wb-tab:visible');
    await expect(tab.getByRole('table').last()).toContainText('rate');
    await expect(tab.locator('canvas')).toHaveCount(2);

    await expectAccessible('.wb-tab');
    await picture(page, `compare-${name}`);
  });

  test(`${name}: what stands in JupyterLab's own places`, async () => {
    const item = page.locator('.wb-statusitem');
    await expect(item).toContainText('2 ranks');
    await command(page, 'running:show-panel');
    await expect(
      page.locator('.jp-RunningSessions-item').filter({ hasText: '2 ranks' })
    ).toBeVisible();

    await expectAccessible('#jp-running-sessions', 'jp-button'); // those are JupyterLab's
    await expectAccessible('.wb-statusitem');
    await looks(item, `statusitem-${name}`);
  });
}

test('an open run takes on the colours of another theme', async () => {
  const run = await openRun(page, runs['digits']);
  for (const theme of Object.values(THEMES)) {
    const before = await drawn(run);
    await setTheme(page, theme);
    await expect.poll(() => drawn(run), { message: theme }).not.toBe(before);
  }
});

/** What its first chart looks like. */
function drawn(run: Locator): Promise<string> {
  return run
    .locator('canvas')
    .first()
    .evaluate(canvas => (canvas as HTMLCanvasElement).toDataURL());
}

async function expectAccessible(
  selector: string,
  ...others: string[]
): Promise<void> {
  const builder = new AxeBuilder({ page }).include(selector);
  others.forEach(other => builder.exclude(other));
  const found = await builder.analyze();
  const barriers = found.violations.map(
    ({ id, help, nodes }) =>
      `${id}: ${help}: ${nodes.map(node => `${node.html} ${node.failureSummary}`).join('; ')}`
  );
  expect(barriers).toEqual([]);
}

/** The fonts are the same everywhere, but not how a machine smooths them. */
async function looks(node: Locator, name: string): Promise<void> {
  await page.mouse.move(0, 0);
  await page.evaluate(() => (document.activeElement as HTMLElement).blur());
  await expect(node).toHaveScreenshot(`${name}.png`, {
    maxDiffPixelRatio: 0.05,
    animations: 'disabled'
  });
}
