/** The attempts that failed and were tried again are listed. */
import { FailureList } from '../failures';
import { aRun } from './samples';

const failure = (attempt: number, error: string) =>
  `Attempt ${attempt} failed at iteration 1,200: ${error}`;

it('lists nothing where none has failed', () => {
  const list = new FailureList();

  list.show(aRun());

  expect(list.node.hidden).toBe(true);
});

it('lists each that has failed, with its step and the last line of its error', () => {
  const list = new FailureList();

  list.show(aRun({ failures: [failure(1, 'ValueError: loss is NaN')] }));
  list.show(
    aRun({
      failures: [failure(1, 'ValueError: loss is NaN'), failure(2, 'SIGKILL')]
    })
  );

  expect(list.node.hidden).toBe(false);
  expect([...list.node.children].map(one => one.textContent)).toEqual([
    'Attempt 1 failed at iteration 1,200: ValueError: loss is NaN',
    'Attempt 2 failed at iteration 1,200: SIGKILL'
  ]);
});
