/** Who waits for whom is said as in the terminal, and warned of. */
import cases from '../../../../tests/view/runs.json';
import type { IRun } from '../../protocol';
import { HangLine } from '../hang';
import { ENGLISH } from '../trans';
import { aRun } from './samples';

const hangs = cases.filter(one => one.hang);
const sent = (what: string): IRun =>
  aRun(hangs.find(one => one.what === what)!.sent as object);
const SURE = sent('a rank waits for one that sleeps, in a cell, running');
const SLOW = sent('others are slow, running');

test.each(hangs)('$what', one => {
  const line = new HangLine(ENGLISH);

  line.show(aRun(one.sent as object));

  expect(line.node.hidden).toBe(false);
  expect(line.node.textContent!.trim()).toBe(one.hang_lines.join(' '));
});

test('a hang is a warning that is read out once, and goes when the others come', () => {
  const line = new HangLine(ENGLISH);

  expect(line.show(SURE)).toMatch(/^Rank 0 has waited in allreduce for 6 s/);
  expect(line.node.className).toBe('wb-remark wb-hang wb-warning');
  expect(line.show(SURE)).toBe('');
  expect(line.show(aRun({ hang: null }))).toBe('');
  expect(line.node.hidden).toBe(true);
});

test('a slow rank is no warning', () => {
  const line = new HangLine(ENGLISH);

  expect(line.show(SLOW)).toBe('');
  expect(line.node.className).toBe('wb-remark wb-hang');
  expect(line.node.hidden).toBe(false);
});
