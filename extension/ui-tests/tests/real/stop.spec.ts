/** Stop reaches the ranks while the cell blocks, whatever the kernel does with widgets' clicks. */
import {
  expect,
  expectBusy,
  expectMore,
  expectResult,
  expectState,
  LOADING,
  openLab,
  openPanel,
  runCells,
  runView,
  test,
  training,
  workbench,
  writeNotebook
} from '../support';

test.beforeAll(async () => {
  await workbench('up', '2');
});

for (const [kernel, version] of [
  ['python3', '7.4'],
  ['older', '7.3']
]) {
  for (const place of ['panel', 'run view']) {
    const name = `${kernel}-${place.replace(' ', '-')}`;
    // Each kernel once and each place once; the other pairs weekly.
    const isOften = (kernel === 'older') === (place === 'panel');
    const tag = isOften ? [] : ['@weekly'];
    const title = `from the ${place}, with ipykernel ${version}`;

    test(title, { tag }, async ({ page }) => {
      const says = `import ipykernel; print('version', ipykernel.__version__)`;
      const path = writeNotebook(
        name,
        [`${LOADING}\n${says}`, training(name, 2000)],
        kernel
      );
      await openLab(page, path);
      await runCells(page, 2);
      const view = runView(page);
      await expectMore(view, 10, 60_000);
      await expect(page.getByText(`version ${version}`)).toBeVisible();
      await expectBusy(path);

      if (place === 'panel') {
        const panel = await openPanel(page);
        // Other clusters are listed as well, which have nothing to stop.
        const stop = { name: 'Stop training', disabled: false };
        await panel.getByRole('button', stop).click();
      } else {
        await view.getByRole('button', { name: 'Stop', exact: true }).click();
      }

      await expectState(name, 'stopped');
      await expect(view).toContainText('stopped at iteration');
      await expectResult(path, 1);
    });
  }
}
