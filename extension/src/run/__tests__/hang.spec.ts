/** Who waits for whom is said as in the terminal, and warned of. */
import { HangLine } from '../hang';
import { aRun } from './samples';

const advice = 'Stop the run.';
const sentence = 'Rank 0 has waited in allreduce for 6 s (line 3 of the cell).';
const SURE = aRun({ hang: { sure: true, sentence, advice } });
const SLOW = aRun({ hang: { sure: false, sentence: 'Rank 0 waits.' } });

test('a hang is a warning that is read out once, and goes when the others come', () => {
  const line = new HangLine();

  expect(line.show(SURE)).toMatch(/^Rank 0 has waited in allreduce for 6 s/);
  expect(line.node.className).toBe('wb-remark wb-hang wb-warning');
  expect(line.node.textContent).toBe(`${sentence} ${advice}`);
  expect(line.show(SURE)).toBe('');
  expect(line.show(aRun({ hang: null }))).toBe('');
  expect(line.node.hidden).toBe(true);
});

test('a slow rank is no warning', () => {
  const line = new HangLine();

  expect(line.show(SLOW)).toBe('');
  expect(line.node.className).toBe('wb-remark wb-hang');
  expect(line.node.hidden).toBe(false);
});
