/** A run that was stopped is resumed in its tab, where its curves say from where it continued. */
import {
  ask,
  expect,
  expectMore,
  openLab,
  openRun,
  picture,
  points,
  stopAll,
  test
} from '../support';

test.afterEach(stopAll);

test('a stopped run continues, and its curves are marked there', async ({
  page
}) => {
  const id = await ask('resumed', { iterations: 10_000_000, saves: 1 });
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
    /; iteration \d+: resumed$/
  );
  await expect(run.getByRole('button', { name: 'Stop' })).toBeVisible();
  await picture(run, 'resumed');
});
