/** An axis shows all values and a margin, but no value that cannot be. */
import type { Family } from '../../protocol';
import { axisOf, logAxisOf } from '../axes';

test.each<[Family, [number, number], [number, number]]>([
  ['share', [0.5, 1], [0.47, 1]],
  ['share', [1, 1], [0.9, 1]],
  ['share', [0, 0], [0, 1]],
  ['share', [0.01, 0.5], [0, 0.5294]],
  ['share', [50, 100], [47, 100]],
  ['loss', [0.01, 2.01], [0, 2.13]],
  ['loss', [0.2, 0.2], [0.18, 0.22]],
  ['loss', [-1, 1], [-1.12, 1.12]]
])('%s of %p is drawn on %p', (family, values, wanted) => {
  const [bottom, top] = axisOf(family, values);

  expect(bottom).toBeCloseTo(wanted[0]);
  expect(top).toBeCloseTo(wanted[1]);
});

test.each<[Family, [number, number], [number, number]]>([
  ['loss', [0.012, 2.3], [0.01, 3]],
  ['loss', [1, 1], [1, 10]],
  ['share', [1, 1], [0.1, 1]]
])(
  '%s of %p is drawn on %p on a logarithmic scale',
  (family, values, wanted) => {
    expect(logAxisOf(family, values)).toEqual(wanted);
  }
);
