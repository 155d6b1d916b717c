/** A training cell that loses a rank, and is resized from the panel; the page is reloaded between. */
import {
  expect,
  expectMore,
  expectResult,
  expectState,
  LOADING,
  moveBackTo,
  openLab,
  openPanel,
  pace,
  picture,
  points,
  reload,
  runCells,
  runView,
  size,
  speedUp,
  test,
  text,
  workbench,
  writeNotebook,
  type Locator
} from '../support';

test.setTimeout(180_000);

/** A Chainer training as a person writes it. */
function training(name: string, iterations: number): string {
  return `%%dist_train --name ${name}
import os, time
import chainer, chainermn, numpy
comm = chainermn.create_communicator('naive')
examples = numpy.random.RandomState(0).rand(400, 4).astype('f')
whole = chainer.datasets.TupleDataset(examples, examples.sum(axis=1, keepdims=True))
part = chainermn.scatter_dataset(whole, comm, shuffle=True, seed=1)
model = chainer.links.Classifier(
    chainer.links.Linear(4, 1), chainer.functions.mean_squared_error)
model.compute_accuracy = False
optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.SGD(0.01), comm)
optimizer.setup(model)
updater = chainer.training.StandardUpdater(
    chainer.iterators.SerialIterator(part, 4), optimizer)
trainer = chainer.training.Trainer(
    updater, (${iterations}, 'iteration'), os.environ['WORKBENCH_OUTPUT'])
trainer.extend(
    lambda _: time.sleep(${pace(name, 'updater.iteration', 80)}), trigger=(1, 'iteration'))
trainer.run()
print('ended at iteration', updater.iteration, 'on', comm.size)`;
}

/** The pids of the cluster's ranks. */
async function ranks(): Promise<number[]> {
  const said = JSON.parse(await workbench('status', '--json'));
  return said.clusters[0].ranks.map((one: { pid: number }) => one.pid);
}

/** The marks on a run's curves, in words. */
async function marks(view: Locator): Promise<string> {
  const plot = view.locator('.wb-picture').first();
  return (await plot.getAttribute('aria-label')) ?? '';
}

test('a cell goes on after a lost rank and a resize, and its curve says so', async ({
  page
}) => {
  await workbench('up', '2');
  const path = writeNotebook('elastic', [LOADING, training('elastic', 200)]);
  await openLab(page, path);
  await runCells(page, 2);
  const view = runView(page);
  await expectMore(view, 120, 60_000);

  process.kill((await ranks())[1], 'SIGKILL');

  await expect(view).toContainText('attempt 2', { timeout: 30_000 });
  await reload(page);
  await expect(view).toContainText('resumed at iteration', { timeout: 60_000 });
  await expect.poll(() => marks(view)).toMatch(/iteration \d+: rank lost/);
  if (/[1-9]\d* steps? redone/.test(await marks(view))) {
    const cursor = view.getByRole('slider', { name: 'Cursor of loss' });
    await moveBackTo(cursor, /attempt 1, redone: /);
    await picture(view, 'elastic-lost');
    await cursor.blur();
  }

  const panel = await openPanel(page);
  await panel.getByRole('spinbutton', { name: 'Ranks' }).fill('1');
  await expect(panel.locator('.wb-effect')).toContainText(
    'moves to the new ranks'
  );
  await picture(panel, 'elastic-panel');
  await panel.getByRole('button', { name: 'Resize', exact: true }).click();

  await expect(view).toContainText('attempt 3, 2 → 1 rank', {
    timeout: 60_000
  });
  await expect.poll(() => marks(view)).toMatch(/iteration \d+: 2 → 1 rank, /);
  await expect(panel).toContainText(size(1, 1));
  const then = await points(view);
  speedUp('elastic');
  await expectMore(view, then);
  await expectState('elastic', 'finished');
  const bundle = await expectResult(path, 1);
  expect(text(bundle['text/plain'])).toContain('iteration 200 of 200');
  await picture(page, 'elastic-finished');
  await workbench('resize', '2'); // as the next one expects it
});
