/** Notebooks that hold a run's result: of this machine, and of another. */
import {
  bundleOf,
  expect,
  fixedRuns,
  follow,
  openLab,
  RUN_TYPE,
  test,
  writeNotebook
} from '../support';

// All cells are in sight.
test.use({ viewport: { width: 1280, height: 3600 } });

const { step } = test;

const ELSEWHERE = '250101-000000-zzzz';

function shown(data: object): object {
  return { output_type: 'display_data', data, metadata: {} };
}

/** The notebook's cells: what the file has of each one's run. */
async function cells(): Promise<[string, object][]> {
  const { digits } = await fixedRuns();
  const bundle = await bundleOf(digits);
  const { saved } = bundle[RUN_TYPE];
  return [
    ['saved', bundle],
    [
      'elsewhere',
      { ...bundle, [RUN_TYPE]: { run: ELSEWHERE, name: 'elsewhere' } }
    ],
    [
      'late',
      {
        [RUN_TYPE]: { run: digits, name: 'digits' },
        'text/plain': 'digits: running'
      }
    ],
    [
      'cut',
      {
        ...bundle,
        [RUN_TYPE]: { ...bundle[RUN_TYPE], saved: { ...saved, frame: 'AAAA' } }
      }
    ]
  ];
}

test('each cell shows what its file, or the store, has of its run', async ({
  page
}) => {
  const made = await cells();
  const path = writeNotebook(
    'saved',
    made.map(([name, data]) => ({
      source: `%%dist_train --name ${name}`,
      outputs: [shown(data)]
    }))
  );
  const output = (name: string) =>
    page
      .locator('.jp-Notebook .jp-CodeCell')
      .nth(made.findIndex(([one]) => one === name))
      .locator('.jp-OutputArea');
  const asked: string[] = [];
  page.on('request', request => asked.push(request.url()));
  page.on('websocket', socket => asked.push(socket.url()));
  await openLab(page, path);

  await step('a result is drawn without a word to the server', async () => {
    const view = output('saved').locator('.wb-run');
    await expect(view).toContainText('iteration 400 of 400');
    await expect(view.locator('canvas')).toHaveCount(2);
    await expect(view.locator('.wb-stop')).toBeHidden();
  });

  await step('one that was cut short does not break the notebook', () =>
    expect(output('cut')).toContainText(/digits/)
  );

  await step(
    'a run of another machine is named, and its picture is kept',
    async () => {
      const elsewhere = output('elsewhere');
      const image = elsewhere.locator('img');
      await expect(image).toBeVisible(); // before anybody asks for the run
      expect(asked.filter(url => url.includes('workbench/api/runs'))).toEqual(
        []
      );
      await follow(elsewhere);
      await expect(elsewhere).toContainText(
        "This run is not in this machine's store; the picture below was saved with the notebook."
      );
      await expect(image).toBeVisible();
      await expect
        .poll(() =>
          image.evaluate(node => (node as HTMLImageElement).naturalWidth)
        )
        .toBeGreaterThan(100);
    }
  );

  await step('a cell without a result gets it from the store', async () => {
    await follow(output('late'));

    await expect(output('late').locator('.wb-run')).toContainText(
      'iteration 400 of 400'
    );
  });
});
