/** What we display stays as it was written: no page takes it for mathematics or for markup. */
import {
  expect,
  gallery,
  KEEPS_PICTURES,
  openLab,
  picture,
  setTheme,
  test,
  THEMES,
  writeNotebook,
  type Page
} from '../support';

const { step } = test;

const MATHEMATICS = '<p>It is $x^2$.</p>';

/** The outputs by name; a person's own mathematics stands last. */
async function open(page: Page, name: string): Promise<Map<string, string>> {
  const made = new Map(Object.entries(await gallery()));
  made.set('mathematics', MATHEMATICS);
  const path = writeNotebook(
    name,
    [...made].map(([source, html]) => ({
      source: `# ${source}`,
      outputs: [
        {
          output_type: 'display_data',
          data: { 'text/html': html },
          metadata: {}
        }
      ]
    }))
  );
  await openLab(page, path);
  return made;
}

/** What an output shows, and how much of it was typeset. */
async function shownIn(page: Page, index: number): Promise<[string, number]> {
  const cell = page.locator('.jp-Notebook .jp-CodeCell').nth(index);
  await cell.scrollIntoViewIfNeeded();
  return cell.locator('.jp-RenderedHTML').evaluate(node => {
    const typeset = node.querySelectorAll('mjx-container, .MathJax').length;
    const copy = node.cloneNode(true) as HTMLElement;
    copy.querySelectorAll('style').forEach(style => style.remove());
    return [copy.textContent ?? '', typeset];
  });
}

/** The text that a page has to show. */
function textOf(page: Page, html: string): Promise<string> {
  return page.evaluate(html => {
    const parsed = new DOMParser().parseFromString(html, 'text/html');
    parsed.querySelectorAll('style').forEach(style => style.remove());
    return parsed.body.textContent ?? '';
  }, html);
}

for (const trust of ['untrusted', 'trusted']) {
  test(`it is shown as it is in a notebook that is ${trust}`, async ({
    page
  }) => {
    const made = await open(page, `typeset-${trust}`);
    const last = page.locator('.jp-Notebook .jp-CodeCell').last();
    await expect(last).toBeAttached();
    if (trust === 'trusted') {
      await page.evaluate(() => {
        const { shell } = (window as any).jupyterapp;
        const opened = [...shell.widgets('main')].map(
          one => one.content?.model
        );
        for (const cell of opened.find(model => model?.cells).cells) {
          cell.trusted = true;
        }
      });
    }
    // By then the typesetter is there.
    await expect(async () => {
      await last.scrollIntoViewIfNeeded();
      await expect(last.locator('mjx-container')).toBeVisible();
    }).toPass({ timeout: 30_000 });
    const names = [...made.keys()].slice(0, -1);
    const expected = await Promise.all(
      names.map(name => textOf(page, made.get(name)!))
    );
    for (const [index, name] of names.entries()) {
      await expect(async () => {
        expect((await shownIn(page, index))[0], name).toBe(expected[index]);
      }).toPass({ timeout: 10_000 });
    }

    // By now it has been over all of them.
    for (const [index, name] of names.entries()) {
      expect(await shownIn(page, index), name).toEqual([expected[index], 0]);
    }

    if (trust === 'untrusted') {
      await step(
        'tables begin at the left, and their numbers end at the right',
        () => expectTables(page, made)
      );
    }
  });
}

async function expectTables(
  page: Page,
  made: Map<string, string>
): Promise<void> {
  const index = [...made.keys()].indexOf('notebook.cell_output.table');
  const output = page.locator('.jp-Notebook .jp-CodeCell').nth(index);
  await output.scrollIntoViewIfNeeded();

  const table = output.locator('table');
  const sides = await table
    .locator('tbody tr')
    .first()
    .locator('td')
    .evaluateAll(cells => cells.map(cell => getComputedStyle(cell).textAlign));
  const [caption, left] = await Promise.all(
    [output.locator('figcaption'), table].map(
      async one => (await one.boundingBox())!
    )
  );

  expect(sides).toEqual(['left', 'right']);
  expect(Math.abs(caption.x - left.x)).toBeLessThan(2);
  for (const theme of KEEPS_PICTURES ? (['light', 'dark'] as const) : []) {
    await setTheme(page, THEMES[theme]);
    for (const [index, name] of [...made.keys()].entries()) {
      if (/plan_bundle|survey_bundle|bundle_of|newest_runs/.test(name)) {
        const shown = page.locator('.jp-Notebook .jp-CodeCell').nth(index);
        await shown.scrollIntoViewIfNeeded();
        await picture(shown, `typeset-${theme}-${name}`);
      }
    }
  }
}
