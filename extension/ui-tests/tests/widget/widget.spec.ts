/** A page without our extension: the same form and curves by widgets, and a picture in the end. */
import { join } from 'node:path';

import { given, PYTHON } from '../store';
import {
  api,
  expect,
  expectMore,
  LOADING,
  openLab,
  type Page,
  picture,
  runCells,
  savedOutputs,
  test,
  text,
  TOKEN,
  WIDGET_TYPE,
  writeNotebook
} from '../support';

test('curves grow while the cell blocks, and a picture stays', async ({
  page
}) => {
  const path = writeNotebook('widget', [
    LOADING,
    '%%dist_train --name widget --param iterations=300 --param pace=0.025\npass'
  ]);
  await openLab(page, path);
  await runCells(page, 2);

  const view = page.locator('.jp-OutputArea .wb-run');
  const before = await expectMore(view, 0, 30_000);
  await expectMore(view, before);
  await expect(view.locator('canvas').first()).toBeVisible();
  await picture(page, 'widget');

  await expect(page.locator('.jp-OutputArea img')).toBeVisible({
    timeout: 30_000
  });
  await expect(view).toHaveCount(0);
  await page.keyboard.press('Control+s');
  await expect
    .poll(() =>
      savedOutputs(path, 1).some(({ data = {} }) =>
        text(data['image/png'] ?? '').startsWith('iVBOR')
      )
    )
    .toBe(true);
  const kinds = savedOutputs(path, 1).flatMap(({ data = {} }) =>
    Object.keys(data)
  );
  expect(kinds).not.toContain(WIDGET_TYPE);
});

test('the form of a cluster is there, and the kernel does what it asks', async ({
  page
}) => {
  const path = writeNotebook('form', [
    `${LOADING}\n%dist_cluster --cluster form`
  ]);
  await openLab(page, path);
  await runCells(page, 1);
  const form = page.locator('.jp-OutputArea .wb-below-cell');
  await form
    .getByRole('combobox', { name: 'Provider' })
    .selectOption('rehearsal');
  await form.getByRole('button', { name: 'Show what fits' }).click();

  await expect(form).toContainText(/Total \$[\d.]+\/h at current prices/);
  await expect(
    form.getByRole('button', { name: 'Start', exact: true })
  ).toHaveAttribute('aria-disabled', 'false');
  await picture(page, 'widget-form');
});

test('a page that has just widgets draws the run of a kernel that VS Code started', async ({
  page
}) => {
  const { kernel } = await api('api/sessions', 'POST', {
    name: '',
    path: 'elsewhere.ipynb',
    type: 'notebook',
    kernel: { name: 'python3' }
  });
  await openOnlyWidgets(page, kernel.id);
  for (const cell of [
    `${LOADING}
import os
del os.environ['WORKBENCH_LIVE_VIEW']
__vsc_ipynb_file__ = 'elsewhere.ipynb'`,
    '%%dist_train --name elsewhere --param iterations=300 --param pace=0.025\npass'
  ]) {
    await page.evaluate(code => (window as any).execute(code), cell);
  }

  const view = page.locator('.wb-run');
  const before = await expectMore(view, 0, 30_000);
  await expectMore(view, before);
  await expect(view.locator('canvas').first()).toBeVisible();
  await picture(page, 'only-widgets');

  await expect(page.locator('img')).toBeVisible({ timeout: 30_000 });
  await expect(view).toHaveCount(0);
});

/** Open a page that shows a kernel's outputs by the modules that pages load outside JupyterLab. */
async function openOnlyWidgets(page: Page, kernel: string): Promise<void> {
  const modules = join(__dirname, '..', '..', '..', 'node_modules');
  const served = join(PYTHON, '..', '..', 'share', 'jupyter', 'nbextensions');
  const files: { [name: string]: string } = {
    'page.html': join(__dirname, 'only-widgets.html'),
    'require.js': join(modules, 'requirejs', 'require.js'),
    'embed-amd.js': join(
      modules,
      '@jupyter-widgets',
      'html-manager',
      'dist',
      'embed-amd.js'
    ),
    'anywidget.js': join(served, 'anywidget', 'index.js')
  };
  for (const [name, path] of Object.entries(files)) {
    await page.route(`**/only-widgets/${name}*`, route =>
      route.fulfill({ path })
    );
  }
  const url = new URL(
    `api/kernels/${kernel}/channels?token=${TOKEN}`,
    given('WORKBENCH_UI_URL')
  );
  url.protocol = 'ws:';
  // The browser holds a page that no server sent for a page of the public network.
  await page.context().grantPermissions(['local-network-access']);
  await page.goto(
    `only-widgets/page.html?kernel=${encodeURIComponent(`${url}`)}`
  );
  await page.waitForFunction(() => 'execute' in window, undefined, {
    timeout: 60_000
  });
}
