import { compareRows } from '../../comparetable';
import type { ISteps } from '../../protocol';
import { StepTable } from '../steps';
import { aRun } from './samples';
import { run, steps } from './verdict.json';

const words = (sentence: string) => sentence.replace(/`/g, '');

it('shows the verdict that was sent, verbatim', () => {
  const table = new StepTable();

  table.show(steps as unknown as ISteps);

  const shown = [...table.node.querySelectorAll('.wb-verdict')];
  expect(shown.map(node => node.textContent)).toEqual(run.verdict.map(words));
  expect(steps.says).toEqual(run.verdict);
});

it('marks the rank that was sent as the slowest', () => {
  const table = new StepTable();

  table.show(steps as unknown as ISteps);

  const [marked] = table.node.querySelectorAll('.wb-slowest');
  expect(marked.textContent).toContain(`rank ${steps.slowest} ▲ slowest`);
});

it('compares the last values and the parts that were sent', () => {
  const parts = compareRows([aRun(run as object)]);
  const shown = Object.fromEntries(
    parts.flatMap(({ rows }) =>
      rows.map(({ name, words: [word] }) => [name, word])
    )
  );

  expect(shown).toMatchObject({
    'main/loss': '1.25',
    total: '42.0',
    compute: '27.0'
  });
});
