/** What ranks display is seen in the cell, after a reload as well, and is in the file once. */
import {
  expect,
  expectResult,
  expectState,
  LOADING,
  type Locator,
  openLab,
  type Page,
  picture,
  reload,
  runCells,
  runView,
  savedOutputs,
  speedUp,
  test,
  training,
  workbench,
  writeNotebook
} from '../support';

/** A training before which rank 0 shows a figure and prints, and rank 1 shows HTML. */
const showing = (name: string, iterations: number): string =>
  training(name, iterations, 0).replace(
    'for i',
    `import matplotlib.pyplot as plt
from IPython.display import HTML, display
if rank == 0:
    plt.plot([3, 1, 2])
    plt.show()
    print('below the figure')
else:
    display(HTML('<table class="dataframe"><tr><td>of rank 1</td></tr></table>'
                 '<img src=x onerror="window.hostile = 1"><script>hostile = 1</script>'))
for i`
  );

test.beforeAll(async () => {
  await workbench('up', '2');
});

/** How often the notebook's file has an image, whose address in the page is given. */
function timesInFile(path: string, address: string): number {
  const content = JSON.stringify(savedOutputs(path, 1));
  return content.split(address.slice(-400, -50)).length - 1;
}

async function addressOf(image: Locator): Promise<string> {
  await expect(image).toBeVisible({ timeout: 60_000 });
  const address = (await image.getAttribute('src'))!;
  expect(address).toMatch(/^data:image\/png;base64,/);
  return address;
}

/** The images that are outputs of their own in the cell that trains. */
const inline = (page: Page) =>
  page.locator('.jp-Cell').nth(1).locator('.jp-RenderedImage img');

test('a figure of rank 0 is seen at once in the cell, and kept once', async ({
  page
}) => {
  const path = writeNotebook('display', [LOADING, showing('display', 100)]);
  await openLab(page, path);
  await runCells(page, 2);
  const view = runView(page);

  const address = await addressOf(inline(page));
  await expect(view).toHaveAttribute('data-state', 'running');
  await expect(
    page.getByText('below the figure', { exact: true })
  ).toBeVisible();
  await expect(view.locator('.wb-output')).not.toHaveAttribute('open', '');
  await view.getByText('Output by rank').click();
  await view.locator('.wb-outputbar select').selectOption('1');
  await expect(view.locator('.wb-display td')).toHaveText('of rank 1');
  await expect(view.locator('.wb-display script')).toHaveCount(0);
  await picture(page, 'display-inline');
  speedUp('display');

  await expectState('display', 'finished');
  await expectResult(path, 1);
  await expect.poll(() => timesInFile(path, address)).toBe(1);
  await expect(inline(page)).toHaveCount(1);
  expect(
    await page.evaluate(() => (window as { hostile?: number }).hostile)
  ).toBeUndefined();
});

test('after a reload the figure is in the run, and kept once', async ({
  page
}) => {
  const path = writeNotebook('displayed', [LOADING, showing('displayed', 100)]);
  await openLab(page, path);
  await runCells(page, 2);
  const address = await addressOf(inline(page));
  await page.keyboard.press('Control+s');
  await expect.poll(() => timesInFile(path, address)).toBe(1);

  await reload(page);

  // What is out of sight is not drawn, and the run may be higher than the window.
  await runView(page).getByText('Output by rank').scrollIntoViewIfNeeded();
  const shown = runView(page).locator('.wb-display img');
  expect(await addressOf(shown)).toBe(address);
  await picture(page, 'display-reloaded');
  speedUp('displayed');
  await expectState('displayed', 'finished');
  await expectResult(path, 1);
  await expect.poll(() => timesInFile(path, address)).toBe(1);
  const kinds = savedOutputs(path, 1).map(output => output.output_type);
  expect(kinds.filter(kind => kind === 'display_data')).toHaveLength(1);
  await expect(inline(page)).toHaveCount(0);
});
