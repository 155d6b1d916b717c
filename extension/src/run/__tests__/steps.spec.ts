import type { ISteps } from '../../protocol';
import { StepTable } from '../steps';

const SPLIT: ISteps = {
  type: 'steps',
  slowest: 1,
  parts: ['compute', 'waiting', 'moving', 'data', 'other'],
  ranks: [
    [0, 0.01, 0.02, 0.003, 0, 0],
    [1, 0.03, 0, 0.003, 0, 0]
  ],
  title: 'Time of a step in ms',
  labels: ['rank 0', 'rank 1 ▲ slowest'],
  ...{ marked: 1, longest: 0.033 },
  says: ['Straggler: others wait for rank 1.']
};

function titles(table: StepTable): string[] {
  const found = table.node.querySelectorAll('thead th');
  return [...found].map(node => node.textContent ?? '');
}

it('has a bar and a column for each part', () => {
  const table = new StepTable();

  table.show(SPLIT);

  expect(titles(table).slice(1, -1)).toEqual([
    'compute',
    'waiting',
    'moving bytes',
    'data',
    'other'
  ]);
  const bars = table.node.querySelectorAll<HTMLElement>(
    'tbody tr:first-child .wb-bar span'
  );
  expect(bars).toHaveLength(5);
  expect(bars[1].className).toBe('wb-part-waiting');
  expect(parseFloat(bars[1].style.width)).toBeCloseTo((100 * 20) / 33);
});

it('lets give way where there is little room what is a small part on all ranks', () => {
  const table = new StepTable();
  const ranks: ISteps['ranks'] = [
    [0, 0.03, 0, 0, 0.0005, 0.06],
    [1, 0.03, 0.02, 0, 0.0005, 0.06]
  ];

  table.show({ ...SPLIT, ranks });

  const small = [...table.node.querySelectorAll('thead .wb-small')];
  expect(small.map(node => node.textContent)).toEqual(['moving bytes', 'data']);
  expect(table.node.querySelectorAll('tbody .wb-small')).toHaveLength(4);
});

it('has messages between two ranks apart where there are any', () => {
  const table = new StepTable();

  table.show({
    type: 'steps',
    slowest: -1,
    parts: ['compute', 'communication', 'point-to-point', 'data', 'other'],
    ranks: [[0, 0.01, 0, 0.02, 0, 0]]
  });

  expect(titles(table)[3]).toBe('point-to-point');
  const bars = table.node.querySelectorAll<HTMLElement>('.wb-bar span');
  expect(bars[2].className).toBe('wb-part-point-to-point');
});

it('marks the rank that the others wait for, and says the verdict', () => {
  const table = new StepTable();

  table.show(SPLIT);

  expect(table.node.querySelector('caption')!.textContent).toBe(
    'Time of a step in ms'
  );
  expect(table.node.querySelector('.wb-slowest')!.textContent).toContain(
    'rank 1 ▲ slowest'
  );
  expect(table.node.querySelector('.wb-verdict')!.textContent).toBe(
    'Straggler: others wait for rank 1.'
  );
});

it('sets what is to be typed apart', () => {
  const table = new StepTable();

  table.show({ ...SPLIT, says: ['Try `--compress fp16`, or `a`.'] });

  const said = table.node.querySelector('.wb-verdict')!;
  expect(said.innerHTML).toBe(
    'Try <code>--compress fp16</code>, or <code>a</code>.'
  );
});

it('shows what an older version saved', () => {
  const table = new StepTable();
  table.show(SPLIT);

  table.show({ type: 'steps', slowest: -1, ranks: [[0, 1, 2, 3, 4]] });

  expect(titles(table)).toContain('communication');
  expect(table.node.querySelectorAll('tbody .wb-bar span')).toHaveLength(4);
  expect(table.node.querySelector('.wb-verdict')).toBeNull();
});
