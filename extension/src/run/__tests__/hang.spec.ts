/** Who waits for whom is said as in the terminal, and warned of. */
import type { IHang } from '../../protocol';
import { HangLine, hangAdvice, hangLine } from '../hang';
import { ENGLISH } from '../trans';
import cases from './hangs.json';
import { anEndedRun, aRun } from './samples';

const [SURE, SLOW] = [cases[0].hang, cases[4].hang] as IHang[];

test.each(cases)('$what', ({ hang, text, ended }) => {
  const told = hang as IHang;

  expect(hangLine(aRun({ hang: told }), ENGLISH)).toBe(text);
  expect(hangLine(anEndedRun({ hang: told }), ENGLISH)).toBe(ended);
});

test('what to do is said while it can be done', () => {
  expect(hangAdvice(aRun({ hang: SURE }), ENGLISH)).toContain('stop the run');
  expect(hangAdvice(aRun({ hang: SLOW }), ENGLISH)).toBe('');
  expect(hangAdvice(anEndedRun({ hang: SURE }), ENGLISH)).toBe('');
  expect(hangAdvice(aRun({ hang: SURE, is_stopping: true }), ENGLISH)).toBe('');
});

test('a hang is a warning that is read out once, and goes when the others come', () => {
  const line = new HangLine(ENGLISH);

  expect(line.show(aRun({ hang: SURE }))).toBe(cases[0].text);
  expect(line.node.className).toBe('wb-remark wb-hang wb-warning');
  expect(line.show(aRun({ hang: SURE }))).toBe('');
  expect(line.show(aRun({ hang: null }))).toBe('');
  expect(line.node.hidden).toBe(true);
});

test('a slow rank is no warning', () => {
  const line = new HangLine(ENGLISH);

  expect(line.show(aRun({ hang: SLOW }))).toBe('');
  expect(line.node.className).toBe('wb-remark wb-hang');
  expect(line.node.hidden).toBe(false);
});
