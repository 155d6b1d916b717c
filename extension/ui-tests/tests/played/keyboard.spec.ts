/** Without a mouse: open, start, look at a run, stop it. */
import {
  ask,
  expect,
  expectState,
  openLab,
  pressKeysOf,
  putCluster,
  test,
  type Page
} from '../support';

test('everything can be reached and done by keys', async ({ page }) => {
  await putCluster(false);
  await openLab(page);
  await pressKeysOf(page, 'workbench-lab:open-panel', 'Control+Shift+Y');
  const panel = page.locator('#workbench-lab-panel');
  await expect(panel).toBeVisible();

  await reach(page, 'button', /^Start$/);
  await page.keyboard.press('Enter');
  await expect(panel).toContainText('ready');

  const id = await ask('typed', { iterations: 10_000 });
  await expect(panel.getByRole('listitem').first()).toContainText('typed');
  await reach(page, 'button', /typed/, '.wb-panel');
  await page.keyboard.press('Enter');
  const run = page.locator('.wb-tab:visible .wb-run');
  await expect(run).toContainText('running');

  await reach(page, 'button', /^Stop$/, '.wb-run');
  await page.keyboard.press('Enter');
  await expectState(id, 'stopped');
  await expect(run).toContainText('stopped');
});

test('the palette opens the panel', async ({ page }) => {
  await openLab(page);
  const open = 'apputils:activate-command-palette';
  await pressKeysOf(page, open, 'Control+Shift+C');
  const input = page.locator('.jp-ModalCommandPalette:visible input');
  await expect(input).toBeFocused();
  await page.keyboard.type('training clusters');
  await expect(input).toHaveValue('training clusters');
  const label = page.locator(
    '.lm-CommandPalette-item.lm-mod-active .lm-CommandPalette-itemLabel'
  );
  await expect(async () => {
    await page.keyboard.press('ArrowDown');
    await expect(label).toHaveText('Training Clusters', { timeout: 1_000 });
  }).toPass();
  await page.keyboard.press('Enter');

  await expect(page.locator('#workbench-lab-panel')).toBeVisible();
});

/** Press Tab until what is wanted has the focus, and see that the focus can be seen. */
async function reach(
  page: Page,
  role: string,
  name: RegExp,
  within = 'body'
): Promise<void> {
  for (let presses = 0; presses < 80; presses++) {
    const found = await page.evaluate(
      ([role, name, within]) => {
        const node = document.activeElement as HTMLElement;
        const said = node.getAttribute('aria-label') ?? node.textContent ?? '';
        const isRole =
          node.tagName.toLowerCase() === role ||
          node.getAttribute('role') === role;
        const { outlineStyle, outlineWidth, boxShadow } =
          getComputedStyle(node);
        return isRole &&
          new RegExp(name).test(said.trim()) &&
          node.closest(within)
          ? { outlineStyle, outlineWidth, boxShadow }
          : null;
      },
      [role, name.source, within] as const
    );
    if (found) {
      const { outlineStyle, outlineWidth, boxShadow } = found;
      const isOutlined = outlineStyle !== 'none' && outlineWidth !== '0px';
      expect(isOutlined || boxShadow !== 'none', `${name}: focus`).toBe(true);
      return;
    }
    await page.keyboard.press('Tab');
  }
  throw new Error(`the Tab key does not lead to ${role} ${name}`);
}
