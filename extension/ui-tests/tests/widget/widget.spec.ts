/** A page without our extension: the same form and curves by widgets, and a picture in the end. */
import {
  expect,
  expectMore,
  LOADING,
  openLab,
  picture,
  runCells,
  savedOutputs,
  test,
  text,
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
