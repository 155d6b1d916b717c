/** A run as a saved notebook shows it: what stands where, at any width and in every theme. */
import {
  another,
  bundleOf,
  command,
  expect,
  fixedRuns,
  fixFonts,
  KEEPS_PICTURES,
  oddRuns,
  openLab,
  picture,
  RUN_TYPE,
  runView,
  setTheme,
  test,
  THEMES,
  writeNotebook,
  type Locator,
  type Page
} from '../support';

const NAMES = ['digits', 'converged', 'hello', 'hellos', 'bar', 'link'];

let page: Page;

/** The cell of a run, where rank 0 wrote below it. */
function cellOf(name: string, bundle: any): any {
  const text = {
    hello: 'hello\n',
    hellos: 'hello of rank 0\n',
    bar: '  0 % |\r100 % |####################'
  }[name];
  const kind = name === 'bar' ? 'stderr' : 'stdout';
  const stream = { output_type: 'stream', name: kind, text };
  const data = {
    ...bundle,
    [RUN_TYPE]: { ...bundle[RUN_TYPE], streamed: !!text }
  };
  return {
    source: `%%dist_train --name ${name}`,
    outputs: [
      { output_type: 'display_data', data, metadata: {} },
      ...(text ? [stream] : [])
    ]
  };
}

const cell = (name: string) =>
  page.locator('.jp-Notebook .jp-CodeCell').nth(NAMES.indexOf(name));
const view = (name: string) => cell(name).locator('.wb-run');

test.beforeAll(async ({ browser }) => {
  const runs = { ...(await fixedRuns()), ...(await oddRuns()) };
  const cells = [];
  for (const name of NAMES) {
    cells.push(cellOf(name, await bundleOf(runs[name])));
  }
  page = await another(browser);
  await fixFonts(page);
  await page.setViewportSize({ width: 1400, height: 3600 });
  await openLab(page, writeNotebook('gallery', cells));
  await command(page, 'application:toggle-left-area');
  await expect(runView(page)).toHaveCount(NAMES.length, { timeout: 60_000 });
  await expect(page.locator('.wb-chart canvas')).toHaveCount(4);
});

test.afterAll(async () => {
  await setTheme(page, THEMES.light);
  await page.context().close();
});

for (const width of [1400, 700]) {
  test(`${width} px: all begins at one left edge, and ends at one right edge`, async () => {
    await page.setViewportSize({ width, height: 3600 });
    const run = view('digits');
    // The page draws its charts again after it has its new width.
    await expect(async () => {
      const lefts = await edges('left', [
        ...[run.locator('.wb-badge'), run.locator('figcaption').first()],
        ...[run.locator('.wb-values thead th').first()],
        ...[run.locator('.wb-steptable caption'), run.locator('.wb-verdict')],
        ...[run.locator('.wb-output'), cell('hellos').locator('pre').last()]
      ]);
      const rights = await edges('right', [
        ...[run.locator('.wb-head'), run.locator('.wb-chart').last()],
        ...[run.locator('.wb-values').last(), run.locator('.wb-steptable')]
      ]);

      expect(apart(lefts), String(lefts)).toBeLessThan(1);
      expect(apart(rights), String(rights)).toBeLessThan(1);
    }).toPass({ timeout: 10_000 });
  });

  test(`${width} px: values stand in the same columns in every chart`, async () => {
    await page.setViewportSize({ width, height: 3600 });
    const ends: number[][] = [];
    for (const chart of await page.locator('.wb-chart').all()) {
      const [edge] = await edges('right', [chart]);
      const columns = await chart.locator('thead th').all();
      ends.push((await edges('left', columns)).map(at => edge - at).slice(1));
    }

    expect(ends).toHaveLength(4);
    for (const column of ends[0].keys()) {
      expect.soft(apart(ends.map(one => one[column]))).toBeLessThan(1);
    }
  });

  test(`${width} px: bars and total are there, each rank in a line`, async () => {
    await page.setViewportSize({ width, height: 3600 });
    const row = view('digits').locator('.wb-slowest');

    await expect(row.locator('.wb-bar')).toBeVisible();
    await expect(row.locator('.wb-column-total')).toBeVisible();
    const bar = await row.locator('.wb-bar').boundingBox();
    expect.soft(bar!.width).toBeGreaterThan(100);
    const box = await row.locator('th').boundingBox();
    expect.soft(box!.height).toBeLessThan(28);
  });
}

test('a cell that only prints shows its print and one small line', async () => {
  for (const name of ['hello', 'hellos', 'bar']) {
    const box = await view(name).boundingBox();
    expect.soft(box!.height, name).toBeLessThan(28);
  }
  await expect(view('hello').locator('.wb-output')).toBeHidden();
  await expect(view('hellos').locator('.wb-output')).toBeVisible();
});

test('a progress bar is one line, and no error', async () => {
  const output = cell('bar').locator('[data-mime-type$="stderr"]');
  await expect(output).toHaveText('100 % |####################');
  await expect(output).toHaveCSS('background-color', 'rgba(0, 0, 0, 0)');
});

for (const width of [1400, 700]) {
  test(`pictures at ${width} px`, async () => {
    test.skip(!KEEPS_PICTURES, 'nobody asked for pictures');
    await page.setViewportSize({ width, height: 3600 });
    for (const [name, theme] of Object.entries(THEMES)) {
      await setTheme(page, theme);
      await picture(page, `gallery-${width}-${name}`);
    }
    await setTheme(page, THEMES.light);
  });
}

/** Where things begin or end, in CSS pixels. */
async function edges(
  side: 'left' | 'right',
  nodes: Locator[]
): Promise<number[]> {
  const found = [];
  for (const node of nodes) {
    found.push(
      await node.first().evaluate((one, side) => {
        const { paddingLeft } = getComputedStyle(one);
        const padding = side === 'left' ? parseFloat(paddingLeft) : 0;
        return one.getBoundingClientRect()[side] + padding;
      }, side)
    );
  }
  return found;
}

function apart(places: number[]): number {
  return Math.max(...places) - Math.min(...places);
}
