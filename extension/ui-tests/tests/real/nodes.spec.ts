/** Pretended nodes from the widget: started, trained on, lost, resized, deleted; nothing is left. */
import {
  expect,
  expectMore,
  expectState,
  KEEPS_PICTURES,
  LOADING,
  openLab,
  openPanel,
  picture,
  runCells,
  runView,
  setTheme,
  test,
  THEMES,
  training,
  workbench,
  writeNotebook
} from '../support';

test.use({ viewport: { width: 1400, height: 1000 } });

const LONG = { timeout: 120_000 };
const OF_IT = '--cluster spot';
const { step } = test;

test.afterEach(async () => {
  await workbench('delete', '--cluster', 'spot').catch(() => undefined);
});

test('three nodes, then four, then two, then nothing', async ({ page }) => {
  test.setTimeout(480_000);
  page.setDefaultTimeout(30_000);
  const path = writeNotebook('spot', [
    `${LOADING}\n%dist_cluster ${OF_IT}`,
    training('on-three', 160).replace('--name', `${OF_IT} --name`)
  ]);
  await openLab(page, path);
  const panel = await openPanel(page);
  const card = panel.locator('.wb-cluster').filter({ hasText: 'spot' });
  const nodes = card.locator('.wb-node');
  await runCells(page, 1);
  const widget = page.locator('.jp-OutputArea .wb-below-cell');
  const box = (label: string) => widget.getByLabel(label, { exact: true });
  const press = (label: string) =>
    widget.getByRole('button', { name: label, exact: true }).click();

  await step('the widget says what three would cost', async () => {
    await widget
      .getByRole('combobox', { name: 'Provider' })
      .selectOption({ label: 'rehearsal (nothing is bought)' });
    await box('Nodes').fill('3');
    await press('Show what fits');

    const total = /Total \$[\d.]+\/h at current prices for 3 nodes/;
    await expect(widget).toContainText(total, LONG);
    await expect(widget).toContainText('simulated: nothing is bought');
    await picture(page, 'nodes-offers');
    if (KEEPS_PICTURES) {
      await setTheme(page, THEMES.dark);
      await picture(page, 'nodes-offers-dark');
      await setTheme(page, THEMES.light);
    }
  });

  await step('and refuses what is not valid', async () => {
    await box('Budget, $').fill('-2');
    await expect(widget).toContainText('Budget, $ must be at least 0, not -2.');
    await expect(
      widget.getByRole('button', { name: 'Start', exact: true })
    ).toHaveAttribute('aria-disabled', 'true');
    await picture(page, 'nodes-refused');
    await box('Budget, $').fill('');
    await expect(widget).toContainText(/Total \$[\d.]+\/h/);
  });

  await step('they join, and the panel shows each', async () => {
    await press('Start');

    await expect(card).toContainText('Nodes3 of 3', LONG);
    await expect(card).toContainText('ready', LONG);
    await card.locator('summary').click();
    await expect(nodes).toHaveCount(3);
    await expect(nodes.first()).toContainText('(head) joined');
    await expect(card).toContainText(/Price\$[\d.]+\/h/);
    await expect(card).toContainText(/So far\$0\.00\d+/);
    await expect(widget).toContainText('Nodes3 of 3');
    await picture(page, 'nodes-joined');
  });

  await step('a cell runs on all of them, and its curve grows', async () => {
    await page.locator('.jp-Notebook .jp-CodeCell').nth(1).click();
    await page.keyboard.press('Control+Enter');

    await expectMore(runView(page), 60, 60_000);
    await expect(runView(page)).toContainText('3 ranks');
    await picture(page, 'nodes-live');
    if (KEEPS_PICTURES) {
      await setTheme(page, THEMES.dark);
      await picture(page, 'nodes-live-dark');
      await setTheme(page, THEMES.light);
    }
  });

  await step('the panel asks for one more while the cell is busy', async () => {
    await card.getByRole('spinbutton', { name: 'Nodes' }).fill('4');
    await card.getByRole('button', { name: 'Resize', exact: true }).click();

    await expectState('on-three', 'finished');
    await expect(card).toContainText('Nodes4 of 4', LONG);
    await expect(card).toContainText('ready', LONG);
  });

  await step('one that is taken back is replaced', async () => {
    const words = (await nodes.last().textContent()) ?? '';
    const [taken] = /r-\d+/.exec(words)!;
    await workbench('interrupt', taken, '--cluster', 'spot');

    await expect(nodes.filter({ hasText: taken })).toHaveCount(0, LONG);
    await expect(card).toContainText('Nodes4 of 4', LONG);
    await expect(nodes).toHaveCount(4);
  });

  await step('two are enough, says the widget', async () => {
    await box('Nodes').fill('2');
    await press('Resize');

    await expect(card).toContainText('Nodes2 of 2', LONG);
    await expect(nodes).toHaveCount(2, LONG);
  });

  await step('Delete asks, and nothing is left', async () => {
    await press('Delete');
    await expect(widget.getByRole('alert')).toContainText(
      '2 nodes and all that belongs to them are deleted.'
    );
    await picture(page, 'nodes-delete');
    await widget
      .getByRole('alert')
      .getByRole('button', { name: 'Delete' })
      .click();

    await expect(widget).toContainText('no resource of it is left', LONG);
    await expect(widget).toContainText(/It would have cost \$0\.00\d+/);
    await expect(card).toContainText('down');
    await expect(card).not.toContainText('Price');
    await picture(page, 'nodes-gone');
    const said = await workbench('sweep-leaks', '--rehearsal');
    expect(said).toContain('No resource has our tags.');
  });
});
