/** Kernel killed, server restarted, connection cut: the curve goes on without a gap. */
import {
  expect,
  expectMore,
  expectResult,
  expectState,
  facts,
  killKernel,
  LOADING,
  openLab,
  points,
  restartServer,
  runCells,
  runView,
  speedUp,
  test,
  training,
  workbench,
  writeNotebook,
  type Locator,
  type Page
} from '../support';

const ITERATIONS = 160;

test.beforeAll(async () => {
  await workbench('up', '2');
});

async function begin(page: Page, name: string): Promise<[string, Locator]> {
  const path = writeNotebook(name, [LOADING, training(name, ITERATIONS, 40)]);
  await openLab(page, path);
  await runCells(page, 2);
  const view = runView(page);
  await expectMore(view, 40, 60_000);
  return [path, view];
}

async function expectWhole(name: string, view: Locator): Promise<void> {
  await expectState(name, 'finished');
  expect((await facts(name)).points).toBe(2 * ITERATIONS);
  await expect(view).toHaveAttribute('data-points', String(2 * ITERATIONS));
}

test('the kernel is killed', async ({ page }) => {
  const [path, view] = await begin(page, 'orphan');
  await killKernel(path);
  const before = await points(view);

  speedUp('orphan');
  await expectMore(view, before + 20);
  await expectWhole('orphan', view);
  await expectResult(path, 1);
});

test('the server is restarted', async ({ page }) => {
  const [path, view] = await begin(page, 'restart');
  const before = await points(view);
  await restartServer();
  speedUp('restart');

  await expectMore(view, before, 120_000);
  await expectWhole('restart', view);
  await expectResult(path, 1);
});

test(
  'the connection is cut',
  { tag: '@weekly' }, // a server that is restarted cuts it daily
  async ({ page }) => {
    const sockets = new Set<{ close: () => Promise<void> }>();
    let isCut = false;
    await page.routeWebSocket(/workbench\/api\/runs\/.*\/follow/, socket => {
      if (isCut) {
        void socket.close();
        return;
      }
      socket.connectToServer();
      sockets.add(socket);
    });
    const [path, view] = await begin(page, 'cut');
    const remark = view.locator('.wb-remark', { hasText: 'Connection lost' });
    await expect(remark).toBeHidden();

    isCut = true;
    await Promise.all([...sockets].map(socket => socket.close()));
    await expect(remark).toBeVisible();
    const during = await points(view);
    speedUp('cut');
    await expect
      .poll(async () => (await facts('cut')).points)
      .toBeGreaterThan(during + 100);
    expect(await points(view)).toBe(during);
    isCut = false;

    await expect(remark).toBeHidden();
    await expectMore(view, during + 100);
    await expectWhole('cut', view);
    await expectResult(path, 1);
  }
);
