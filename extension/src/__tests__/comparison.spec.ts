import { compared } from '../comparison';
import type { IStep } from '../protocol';
import { partNames } from '../run/parts';
import { cases, labels } from './comparison.json';

it.each(cases.map(one => [one.name, one] as const))(
  'says what Python says of runs side by side: %s',
  (_, { runs, said }) => {
    const given = runs.map(([name, step]) => ({
      name: name as string,
      step: step as unknown as IStep | null
    }));

    expect(compared(given)).toBe(said);
  }
);

it('has the names and the order of parts that Python has', () => {
  expect([...partNames()]).toEqual(labels);
});
