import { compareRows } from '../comparetable';
import { aRun } from './samples';

describe('compareRows', () => {
  const first = aRun({
    parameters: { lr: 0.1, units: 100 },
    values: {
      'main/loss': 0.5,
      'validation/main/loss': 0.7
    },
    step: { parts: { compute: 0.002, moving: 0.001 }, noise: 0.1, batch: 64 }
  });
  const second = aRun({
    ...{ state: 'finished', is_ended: true, ranks: 0, started: 0 },
    parameters: { lr: 0.01, units: 100, name: 'b' },
    values: { 'main/loss': null, accuracy: 0.9 }
  });
  const parts = compareRows([first, second]);
  const rows = (title: string) =>
    Object.fromEntries(
      parts
        .find(part => part.title === title)!
        .rows.map(row => [row.name, row.words])
    );

  it('says what each run is, with a dash for what is not known', () => {
    expect(rows('Run')).toEqual({
      State: ['running, 42 %', 'finished'],
      Cluster: ['default', 'default'],
      Ranks: ['2', '–'],
      Iterations: ['420', '420'],
      Duration: ['9.0 s', '–']
    });
  });

  it('holds every parameter that any of them was given', () => {
    expect(rows('Parameters')).toEqual({
      lr: ['0.1', '0.01'],
      name: ['–', 'b'],
      units: ['100', '100']
    });
  });

  it('tells runs apart by the arguments of their scripts', () => {
    const many = [['--lr', '0.2'], ['--lr', '0.4'], []];
    const [, part] = compareRows(
      many.map(given => aRun({ arguments: given, parameters: {} }))
    );

    expect(part.rows).toEqual([
      { name: 'Arguments', words: ['--lr 0.2', '--lr 0.4', '–'], differs: true }
    ]);
  });

  it('holds what training reported, in the order in which it is told', () => {
    expect(Object.entries(rows('Last values'))).toEqual([
      ['main/loss', ['0.5', 'nan']],
      ['validation/main/loss', ['0.7', '–']],
      ['accuracy', ['–', '0.9']]
    ]);
  });

  it('tells step times in milliseconds, the total first, then its parts', () => {
    expect(Object.entries(rows('Milliseconds per step'))).toEqual([
      ['total', ['3.00', '–']],
      ['compute', ['2.00', '–']],
      ['moving bytes', ['1.00', '–']]
    ]);
    const { rows: steps } = parts[parts.length - 1];
    expect(steps.map(row => !!row.isPart)).toEqual([false, true, true]);
  });

  it('puts numbers at the right, and words at the left', () => {
    const numeric = parts.flatMap(part =>
      part.rows.filter(row => row.isNumeric).map(row => row.name)
    );

    expect(numeric).toEqual(
      expect.arrayContaining(['Ranks', 'lr', 'main/loss', 'total', 'compute'])
    );
    expect(numeric).not.toEqual(
      expect.arrayContaining([expect.stringMatching(/State|Cluster|name/)])
    );
  });

  it('marks the parameters in which runs differ', () => {
    const given = parts.find(part => part.title === 'Parameters')!.rows;

    expect(given.map(row => row.differs)).toEqual([true, true, false]);
  });

  it('leaves out what there is nothing of', () => {
    const bare = aRun({ parameters: {}, values: {} });

    expect(compareRows([bare]).map(part => part.title)).toEqual(['Run']);
  });
});
