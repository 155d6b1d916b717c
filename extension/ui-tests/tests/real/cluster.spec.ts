/** A real cluster from the panel: started, resized, deleted; and a shell's wishes seen there. */
import {
  expect,
  openLab,
  openPanel,
  picture,
  size,
  test,
  workbench,
  type Locator,
  type Page
} from '../support';

test.describe.configure({ mode: 'serial', timeout: 300_000 });

const LONG = { timeout: 120_000 };
let page: Page;
let panel: Locator;

test.beforeAll(async ({ browser }) => {
  page = await browser.newPage();
  await openLab(page);
  panel = await openPanel(page);
});

test.afterAll(() => page.close());

test('Start starts as many ranks as are asked for', async () => {
  await panel.getByRole('spinbutton', { name: 'Ranks' }).fill('1');
  await panel
    .getByRole('button', { name: /^Start( on this machine)?$/ })
    .click();

  await expect(panel).toContainText('ready', LONG);
  await expect(panel).toContainText(size(1, 1));
  await expect(panel).toContainText('this machine');
  await expect(panel).not.toContainText('Price');
});

test('Resize gives it another size', async () => {
  await panel.getByRole('spinbutton', { name: 'Ranks' }).fill('2');
  await panel.getByRole('button', { name: 'Resize', exact: true }).click();

  await expect(panel).toContainText(size(2, 2), LONG);
  await expect(panel).toContainText('ready');
  await picture(page, 'panel');
});

test('what a shell asks for is seen within two seconds', async () => {
  await workbench('resize', '1', '--no-wait');

  await expect(panel).toContainText(/Ranks(\d, 1 requested|1 of 1)/, {
    timeout: 2_000
  });
  await expect(panel).toContainText(size(1, 1), LONG);
});

test('Delete asks, and ends it', async () => {
  await panel.getByRole('button', { name: 'Delete', exact: true }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog).toContainText('Delete cluster default?');
  await dialog.getByRole('button', { name: 'Cancel', exact: true }).click();
  await expect(panel).toContainText('ready');

  await panel.getByRole('button', { name: 'Delete', exact: true }).click();
  await dialog.getByRole('button', { name: 'Delete', exact: true }).click();

  await expect(panel).toContainText('down', LONG);
});

test('what a shell starts is seen within two seconds', async () => {
  await workbench('up', '2', '--no-wait');

  await expect(panel).toContainText(/Ranks[012] of 2/, { timeout: 2_000 });
  await expect(panel).toContainText(size(2, 2), LONG);
});
