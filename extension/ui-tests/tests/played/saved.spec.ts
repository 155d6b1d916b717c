/** Notebooks that hold a run's result: of this machine, and of another. */
import {
  bundleOf,
  expect,
  fixedRuns,
  follow,
  openLab,
  RUN_TYPE,
  runView,
  test,
  writeNotebook
} from '../support';

const ELSEWHERE = '250101-000000-zzzz';

function shown(data: object): object {
  return { output_type: 'display_data', data, metadata: {} };
}

test('a saved result is drawn without a word to the server', async ({
  page
}) => {
  const runs = await fixedRuns();
  const bundle = await bundleOf(runs['digits']);
  const path = writeNotebook('saved', [
    { source: '%%dist_train', outputs: [shown(bundle)] }
  ]);
  const asked: string[] = [];
  page.on('request', request => asked.push(request.url()));
  page.on('websocket', socket => asked.push(socket.url()));
  await openLab(page, path);

  const view = runView(page);
  await expect(view).toContainText('iteration 400 of 400');
  await expect(view.locator('canvas')).toHaveCount(2);
  await expect(view.locator('.wb-stop')).toBeHidden();

  expect(asked.filter(url => url.includes('workbench/api/runs'))).toEqual([]);
});

test('a run of another machine is told, and its picture stands', async ({
  page
}) => {
  const runs = await fixedRuns();
  const bundle = await bundleOf(runs['digits']);
  const data = { ...bundle, [RUN_TYPE]: { run: ELSEWHERE, name: 'elsewhere' } };
  const path = writeNotebook('elsewhere', [
    { source: '%%dist_train', outputs: [shown(data)] }
  ]);
  await openLab(page, path);

  const output = page.locator('.jp-OutputArea');
  await expect(output.locator('img')).toBeVisible(); // before anybody asks for the run
  await follow(output);
  await expect(output).toContainText(
    "This run is not in this machine's store; the picture below was saved with the notebook."
  );
  const image = output.locator('img');
  await expect(image).toBeVisible();
  await expect
    .poll(() => image.evaluate(node => (node as HTMLImageElement).naturalWidth))
    .toBeGreaterThan(100);
});

test('a notebook without a result gets it from the store', async ({ page }) => {
  const runs = await fixedRuns();
  const data = {
    [RUN_TYPE]: { run: runs['digits'], name: 'digits' },
    'text/plain': 'digits: running'
  };
  const path = writeNotebook('late', [
    { source: '%%dist_train', outputs: [shown(data)] }
  ]);
  await openLab(page, path);
  await follow(page.locator('.jp-OutputArea'));

  await expect(runView(page)).toContainText('iteration 400 of 400');
});

test('a result that was cut short does not break the notebook', async ({
  page
}) => {
  const runs = await fixedRuns();
  const bundle = await bundleOf(runs['digits']);
  bundle[RUN_TYPE].saved.frame = 'AAAA';
  const path = writeNotebook('cut', [
    { source: '%%dist_train', outputs: [shown(bundle)] }
  ]);
  await openLab(page, path);

  await expect(page.locator('.jp-OutputArea')).toContainText(/digits/);
});
