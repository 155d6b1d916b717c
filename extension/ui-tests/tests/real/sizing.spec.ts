/** A real cluster from the widget, the panel and a shell: one word, one look, each follows the others. */
import {
  api,
  expect,
  LOADING,
  openLab,
  openPanel,
  picture,
  runCells,
  setTheme,
  size,
  test,
  THEMES,
  workbench,
  writeNotebook,
  type Locator
} from '../support';

test.use({ viewport: { width: 1400, height: 1000 } });

const LONG = { timeout: 120_000 };
const SOON = { timeout: 15_000 };
const { step } = test;

const button = (where: Locator, name: string) =>
  where.getByRole('button', { name, exact: true });
const stateIn = (where: Locator) => where.locator('[data-state]').first();

test('the widget and the panel show one cluster alike', async ({ page }) => {
  test.setTimeout(480_000);
  page.setDefaultTimeout(30_000);
  await removeAll();
  await openLab(page, writeNotebook('sizing', [`${LOADING}\n%dist_cluster`]));
  const panel = await openPanel(page);
  await runCells(page, 1);
  const widget = page.locator('.jp-OutputArea .wb-below-cell');
  await expect(widget).toContainText('Cluster default');
  const field = (label: string) => widget.getByLabel(label, { exact: true });
  const provider = (where: Locator) =>
    where.getByRole('combobox', { name: 'Provider' });

  await step(
    'its fields and buttons wear the colours of the panel',
    async () => {
      const looks = (one: Locator) =>
        one.evaluate(node => {
          const { backgroundColor, borderTopColor, color } =
            getComputedStyle(node);
          return { backgroundColor, borderTopColor, color };
        });
      await expect(button(widget, 'Start')).toBeEnabled();
      const start = button(panel, 'Start');
      expect(await looks(button(widget, 'Start'))).toEqual(await looks(start));
      expect(await looks(provider(widget))).toEqual(
        await looks(provider(panel))
      );
      await picture(page, 'sizing-light');
    }
  );

  await step(
    'from the click on both say starting, and then ready',
    async () => {
      await field('Ranks').fill('1');
      await button(widget, 'Start').click();

      await expect(stateIn(widget)).toHaveAttribute(
        'data-state',
        'starting',
        SOON
      );
      await expect(stateIn(panel)).toHaveAttribute(
        'data-state',
        'starting',
        SOON
      );
      await expect(button(widget, 'Start')).toBeDisabled();
      await expect(widget).not.toContainText('Asked');
      await picture(page, 'sizing-starting');

      await expect(panel).toContainText('ready', LONG);
      await expect(widget).toContainText('ready', SOON);
      await expect(widget).toContainText(size(1, 1));
      await expect(panel).toContainText('this machine');
      await expect(panel).not.toContainText('Price');
    }
  );

  await step(
    'the widget follows a size that is asked for in the panel',
    async () => {
      await panel.getByRole('spinbutton', { name: 'Ranks' }).fill('2');
      await button(panel, 'Resize').click();

      await expect(field('Ranks')).toHaveValue('2', SOON);
      await expect(panel).toContainText(size(2, 2), LONG);
      await expect(widget).toContainText(size(2, 2), LONG);
    }
  );

  await step('but leaves a number alone that somebody types', async () => {
    await field('Ranks').fill('1');
    await workbench('resize', '2', '--no-wait');
    await page.waitForTimeout(1_500);

    await expect(field('Ranks')).toHaveValue('1');
    await expect(button(widget, 'Resize')).toBeEnabled();
  });

  await step('what a shell asks for is seen within two seconds', async () => {
    await workbench('resize', '1', '--no-wait');

    await expect(panel).toContainText(/Ranks(\d, 1 requested|1 of 1)/, {
      timeout: 2_000
    });
    await expect(panel).toContainText(size(1, 1), LONG);
  });

  await step('it suits a dark and a narrow page', async () => {
    const look = async (theme: string) => {
      await setTheme(page, theme);
      await expect(page.locator('#jupyterlab-splash')).toHaveCount(0);
    };
    await look(THEMES.dark);
    await picture(page, 'sizing-dark');
    await page.setViewportSize({ width: 700, height: 1000 });
    await picture(page, 'sizing-dark-700');
    await look(THEMES.light);
    await picture(page, 'sizing-700');

    const inside = await widget.evaluate(
      node => node.scrollWidth <= node.clientWidth
    );
    expect(inside).toBe(true);
    await page.setViewportSize({ width: 1400, height: 1000 });
  });

  await step(
    'Delete asks in the widget as in the panel, and the panel forgets what is down',
    async () => {
      await button(widget, 'Delete').click();
      const question = widget.getByRole('alert');
      await expect(question).toContainText('Delete cluster default?');
      await expect(question).toContainText('Its ranks end.');
      await picture(page, 'sizing-delete');
      await button(question, 'Delete').click();

      await expect(stateIn(widget)).toHaveAttribute(
        'data-state',
        'stopping',
        SOON
      );
      await expect(widget).toContainText('down', LONG);
      await expect(stateIn(panel)).toHaveAttribute('data-state', 'down');
      await picture(page, 'sizing-down');

      await button(panel, 'Remove from list').click();
      await expect(button(panel, 'Remove from list')).toHaveCount(0);
      await expect(button(panel, 'Start')).toBeVisible();
      await picture(page, 'sizing-removed');
    }
  );

  await step('the panel starts as many as are asked for', async () => {
    await panel.getByRole('spinbutton', { name: 'Ranks' }).fill('1');
    await button(panel, 'Start').click();

    await expect(panel).toContainText('ready', LONG);
    await expect(panel).toContainText(size(1, 1));
    await picture(page, 'panel');
  });

  await step('Delete in the panel asks, and ends it', async () => {
    await button(panel, 'Delete').click();
    const dialog = page.getByRole('dialog');
    await expect(dialog).toContainText('Delete cluster default?');
    await button(dialog, 'Cancel').click();
    await expect(panel).toContainText('ready');

    await button(panel, 'Delete').click();
    await button(dialog, 'Delete').click();

    await expect(panel).toContainText('down', LONG);
  });
});

/** Delete every cluster, and take it off the panel's list. */
async function removeAll(): Promise<void> {
  const { clusters } = await api('workbench/api/clusters');
  for (const { name } of clusters) {
    const again = () =>
      workbench('delete', '--cluster', name).catch(() => undefined);
    await again();
    await again(); // what is deleted already leaves the list
  }
}
