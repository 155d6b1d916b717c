/** A measurement that is begun, watched, cancelled and read by keys and by eye, in every theme. */
import AxeBuilder from '@axe-core/playwright';

import {
  another,
  expect,
  expectState,
  facts,
  fixFonts,
  measuredBefore,
  openLab,
  openPanel,
  picture,
  putCluster,
  setTheme,
  test,
  THEMES,
  type Locator,
  type Page
} from '../support';

test.describe.configure({ mode: 'serial' });

let page: Page;
let card: Locator;

const button = (name: string) => card.getByRole('button', { name });
const result = () => page.locator('.wb-tab:visible .wb-run');

test.beforeAll(async ({ browser }) => {
  await measuredBefore();
  await putCluster(true);
  page = await another(browser);
  await fixFonts(page);
  await openLab(page);
  const panel = await openPanel(page);
  card = panel.getByRole('region', { name: 'default' });
  await expect(card).toContainText('ready');
});

test.afterAll(async () => {
  await setTheme(page, THEMES.light);
  await page.context().close();
});

test('what was measured last can be seen again', async () => {
  await button('Show result').click();

  const said = result().locator('.wb-survey');
  await expect(said).toContainText('The slowest link is from');
  await expect(said.locator('figcaption')).toContainText('links between');
  await expect(said.locator('img')).toBeVisible();
});

test('a measurement is begun by a key, and cancelled by the same', async () => {
  await button('Measure bandwidth').focus();
  await page.keyboard.press('Enter');

  await expect(card.getByRole('progressbar')).toBeVisible();
  const run = (await result().last().getAttribute('data-run')) as string;
  await expect(result()).toHaveAttribute('data-state', 'running');
  await expect(result().getByRole('button', { name: 'Stop' })).toBeVisible();
  await button('Cancel measuring').focus();
  await page.keyboard.press('Enter');
  await expectState(run, 'stopped');
  await expect(button('Measure bandwidth')).toBeEnabled();
  await expect(result().locator('.wb-survey')).toBeHidden();
});

test('its result names the slowest link, and what has changed', async () => {
  await button('Measure bandwidth').click();
  await expect(card.getByRole('progressbar')).toBeVisible();
  await picture(page, 'bandwidth-progress');

  const survey = result().locator('.wb-survey');
  await expect(survey).toContainText('node-3', { timeout: 30_000 });
  await expect(survey).toContainText(/node-3 lost .*bandwidth since/);
  await expect(survey.locator('img')).toBeVisible();
  await expect(survey).toContainText('% of the slowest link');
  await expect(card).toContainText('measured');
  const run = await result().getAttribute('data-run');
  expect((await facts(run!)).state).toBe('finished');
});

test('its figures open by a key', async () => {
  const summary = result().locator('summary', { hasText: 'Allreduce' });
  await summary.focus();
  await page.keyboard.press('Enter');

  await expect(
    result().getByRole('table', { name: 'Allreduce' })
  ).toContainText('workbench: ring');
});

for (const [name, theme] of Object.entries(THEMES)) {
  test(`${name}: no barrier`, async () => {
    await setTheme(page, theme);

    for (const place of ['.wb-tab', '#workbench-lab-panel']) {
      const found = await new AxeBuilder({ page }).include(place).analyze();
      const barriers = found.violations.map(
        ({ id, nodes }) =>
          `${id}: ${nodes.map(one => `${one.html} ${one.failureSummary}`).join('; ')}`
      );
      expect(barriers).toEqual([]);
    }
    await picture(page, `bandwidth-${name}`);
  });
}
