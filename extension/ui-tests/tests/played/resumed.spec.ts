/** What a run's curves show of its attempts, and of a resize that is to come. */
import {
  ask,
  expect,
  expectMore,
  moveBackTo,
  openLab,
  openRun,
  picture,
  points,
  resizeAfter,
  stopAll,
  test
} from '../support';

test.afterEach(stopAll);

test('a stopped run continues, and its curves show where and what it does again', async ({
  page
}) => {
  const id = await ask('resumed', {
    ...{ iterations: 10_000_000, points: 2000, saves: 1, redo: 400 }
  });
  await openLab(page);
  const run = await openRun(page, id);
  await expectMore(run, 100);

  await run.getByRole('button', { name: 'Stop' }).click();
  await run.getByRole('button', { name: 'Resume' }).click();

  await expect(run).toContainText('attempt 2, resumed at iteration');
  await expectMore(run, await points(run));
  const pictures = run.locator('.wb-picture');
  await expect(pictures.first()).toHaveAttribute(
    'aria-label',
    /; iteration \d+: resumed, 400 steps redone$/
  );
  const cursor = run.getByRole('slider', { name: 'Cursor of loss' });
  await moveBackTo(cursor, /; attempt 1, redone: 0\.\d+$/);
  await expect(run.locator('.wb-chartnote').first()).toContainText(
    'attempt 1, redone'
  );
  await expect(run.getByRole('button', { name: 'Stop' })).toBeVisible();
  await picture(run, 'resumed');
});

test('a failed attempt is listed, and where the run is to move is marked', async ({
  page
}) => {
  const id = await ask('retried', {
    ...{ iterations: 4000, points: 4000, fails: 1020, redo: 100 }
  });
  await openLab(page);
  const run = await openRun(page, id);
  await expect(run.locator('.wb-failures li')).toHaveText([
    'Attempt 1 failed at iteration 1,020: rank 1 on node-0 was killed by signal 9'
  ]);

  await resizeAfter(4);

  const pictures = run.locator('.wb-picture');
  await expect(pictures.first()).toHaveAttribute(
    'aria-label',
    /; iteration 920: .*100 steps redone.*; iteration 4,000: to 4 ranks after the run$/
  );
  await picture(run, 'retried');
  await resizeAfter(2);
});
