/** The pictures of README, made anew when somebody asks for pictures. */
import {
  command,
  expect,
  expectMore,
  expectState,
  facts,
  LOADING,
  openLab,
  openPanel,
  openRun,
  picture,
  runCells,
  runView,
  size,
  test,
  workbench,
  writeNotebook,
  type Page
} from '../support';

const WIDE =
  'L.Linear(64, 600), F.relu, L.Linear(600, 600), F.relu, L.Linear(600, 10)';

test.describe.configure({ timeout: 300_000 });
test.use({ viewport: { width: 1000, height: 1400 } });

function digits(options: string, alpha: string, epochs: number): string {
  return `%%dist_train ${options}
import chainer
import chainer.functions as F
import chainer.links as L
import chainermn
from chainer.training import StandardUpdater, Trainer, extensions
from sklearn.datasets import load_digits

comm = chainermn.create_communicator("naive")
model = L.Classifier(chainer.Sequential(L.Linear(64, 100), F.relu, L.Linear(100, 10)))
optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.Adam(${alpha}), comm)
optimizer.setup(model)

images, labels = load_digits(return_X_y=True)
data = chainer.datasets.TupleDataset((images / 16).astype("f"), labels.astype("i"))
data = chainermn.scatter_dataset(data, comm, shuffle=True)
print("rank", comm.rank, "has", len(data), "images")

batches = chainer.iterators.SerialIterator(data, 32)
trainer = Trainer(StandardUpdater(batches, optimizer), (${epochs}, "epoch"))
if comm.rank == 0:
    trainer.extend(extensions.LogReport(trigger=(10, "epoch")))
    trainer.extend(extensions.PrintReport(["epoch", "main/loss", "main/accuracy"]))
trainer.run()`;
}

/** Leave the notebook alone on the page. */
async function alone(page: Page): Promise<void> {
  await command(page, 'application:toggle-left-area');
  await page.mouse.move(0, 0);
}

test('a cell as it runs, the panel, a run and a comparison', async ({
  page
}) => {
  await workbench('up', '2');
  const path = writeNotebook('digits', [
    `${LOADING}\n%dist_cluster`,
    digits('--name digits', '', 100),
    digits('--name cautious --param alpha=0.001', 'alpha', 50),
    digits('--name bold --param alpha=0.01', 'alpha', 50)
  ]);
  await openLab(page, path);
  await alone(page);
  await runCells(page, 2);
  await expectMore(runView(page), 3000, 60_000);
  await picture(page.locator('.jp-NotebookPanel-notebook'), 'live');

  await page.setViewportSize({ width: 1280, height: 800 });
  const panel = await openPanel(page);
  await expect(panel).toContainText(size(2, 2));
  await page.keyboard.press('Escape');
  await expectState('digits', 'finished');
  await command(page, 'notebook:run-cell-and-select-next');
  await expectState('cautious', 'finished');
  await command(page, 'notebook:run-cell-and-select-next');
  await expect(panel).toContainText('bold');
  const run = await openRun(page, (await facts('bold')).id);
  await expectMore(run, 800);
  await picture(panel, 'panel');
  await expectState('bold', 'finished');
  await expect(run).toContainText('finished');
  await picture(page, 'run-view');

  const ids = [(await facts('cautious')).id, (await facts('bold')).id];
  await command(page, 'workbench-lab:compare-runs', { ids });
  await expect(page.locator('.wb-tab:visible canvas')).toHaveCount(2);
  await expect(page.locator('.wb-tab:visible')).toContainText('alpha');
  await picture(page, 'compare');
});

test('three pretended nodes, and a cell on them', async ({ page }) => {
  await page.setViewportSize({ width: 1400, height: 1020 });
  const of = '--cluster spot';
  await workbench(
    'up',
    '--rehearsal',
    '--nodes',
    '3',
    '--yes',
    ...of.split(' ')
  );
  const path = writeNotebook('spot', [
    `${LOADING}\n%dist_cluster ${of}`,
    digits(`${of} --name on-three`, '', 120)
  ]);
  await openLab(page, path);
  const panel = await openPanel(page);
  await panel.locator('.wb-nodes summary').click();
  await runCells(page, 2);
  await expectMore(runView(page), 3000, 60_000);
  const cell = page.locator('.jp-Notebook .jp-CodeCell').nth(1);
  await cell.locator('.jp-InputCollapser').click();
  await page.locator('.jp-WindowedPanel-outer').evaluate(one => {
    one.scrollTop = 0;
  });
  await page.mouse.move(0, 0);
  await picture(page, 'nodes');
  await expectState('on-three', 'finished');
  await workbench('delete', ...of.split(' '));
});

test('a slow link, and what a run says of it', async ({ page }) => {
  await page.setViewportSize({ width: 1000, height: 1240 });
  const of = '--cluster slow';
  await workbench(
    'up',
    '--rehearsal',
    '--nodes',
    '2',
    '--link',
    '0.2',
    '--yes',
    ...of.split(' ')
  );
  const path = writeNotebook('slow', [
    LOADING,
    `%dist_bandwidth ${of} --rating 0.2`,
    digits(`${of} --name on-a-slow-link`, '', 8)
      .replace('L.Linear(64, 100), F.relu, L.Linear(100, 10)', WIDE)
      .replace('optimizers.Adam()', 'optimizers.MomentumSGD(0.02)')
  ]);
  await openLab(page, path);
  await alone(page);
  await runCells(page, 2);
  await expect(page.locator('.jp-Notebook')).toContainText('The slowest link', {
    timeout: 120_000
  });
  await picture(page.locator('.jp-NotebookPanel-notebook'), 'measured');
  await command(page, 'notebook:run-cell-and-select-next');
  await expectState('on-a-slow-link', 'finished');
  await expect(runView(page).last()).toContainText('Network-bound');
  const cell = page.locator('.jp-Notebook .jp-CodeCell').nth(2);
  await cell.locator('.jp-InputCollapser').click();
  await picture(cell, 'bandwidth');
  await workbench('delete', ...of.split(' '));
});
