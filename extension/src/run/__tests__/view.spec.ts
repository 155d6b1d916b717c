/** A run is shown in words and tables that need no eyes, and its controls do what they say. */
import type { ICurve } from '../layout';
import { RunModel } from '../model';
import { Pacer } from '../pacer';
import { Series } from '../series';
import { ValueTable } from '../values';
import { RunView, type IRunActions } from '../view';
import { aFrame, anEndedRun, aRun, buckets } from './samples';

let model: RunModel;
let view: RunView;

function made(actions: IRunActions = {}, isBeside?: () => boolean): RunView {
  const options = { name: 'digits', isBeside };
  view = new RunView({ model, actions, ...options });
  document.body.append(view.node);
  return view;
}

const find = <T extends HTMLElement>(selector: string) =>
  view.node.querySelector<T>(selector)!;
const say = (changes: Parameters<typeof aRun>[0] = {}) =>
  model.applyMessage({ type: 'run', run: aRun(changes) });
const shown = () =>
  [...view.node.querySelectorAll<HTMLElement>(':scope > :not([hidden])')]
    .map(node => node.className)
    .filter(name => name && name !== 'wb-hidden');
const settle = () => new Promise(resolve => setTimeout(resolve));

beforeEach(() => {
  model = new RunModel(`run-${Math.random()}`);
});

afterEach(() => {
  view.dispose();
  expect(document.body.textContent).toBe('');
});

test('where the run stands is told in a line', () => {
  made();
  say();

  expect(find('.wb-name').textContent).toBe('digits');
  expect(find('.wb-badge').textContent).toBe('running');
  expect(find('.wb-stateline').textContent).toContain('iteration 420 of 1,000');
  expect(find<HTMLProgressElement>('progress').value).toBeCloseTo(0.42);
  expect(find('progress').getAttribute('aria-label')).toBe(
    'Progress of run digits'
  );
});

test('there is a chart for each quantity, in the order of the groups', () => {
  made();
  model.applyFrame(
    aFrame([
      buckets([0, 1], {
        ...{ name: 'main/accuracy', quantity: 'accuracy', family: 'share' }
      }),
      buckets([0, 1], { name: 'main/loss', quantity: 'loss' }),
      buckets([0, 1], { name: 'validation/main/loss', quantity: 'loss' })
    ])
  );

  const titles = [...view.node.querySelectorAll('figcaption')];
  expect(titles.map(title => title.textContent)).toEqual(['loss', 'accuracy']);
});

test('what has no chart is named', () => {
  made();
  const names = Array.from('abcdefgh');
  model.applyFrame(aFrame(names.map(name => buckets([0], { name }))));

  expect(view.node.querySelectorAll('.wb-chart')).toHaveLength(6);
  expect(view.node.textContent).toContain(
    '2 more quantities are not drawn: g, h'
  );
});

test('before the first report there is a word instead of charts', () => {
  made();
  say();

  expect(view.node.textContent).toContain(
    'Curves appear with the first report.'
  );
  expect(find('.wb-toolbar').hidden).toBe(true);
});

describe('a cell that only printed', () => {
  const isPlain = () => view.node.classList.contains('wb-plain');
  const finish = (changes: Parameters<typeof anEndedRun>[0] = {}) => {
    model.applyMessage({ type: 'run', run: anEndedRun(changes) });
    model.applyMessage({ type: 'end' });
  };

  it('has one small line beside its output', () => {
    made({ output: () => undefined }, () => true);
    finish({ ranks: 1 });

    expect(isPlain()).toBe(true);
    expect(shown()).toEqual(['wb-section']);
  });

  it('has what its other ranks wrote within reach', () => {
    made({ output: () => undefined }, () => true);
    finish({ ranks: 4 });

    expect(shown()).toEqual(['wb-section', 'wb-output']);
    expect(find<HTMLDetailsElement>('.wb-output').open).toBe(false);
  });

  it('shows its output where nothing else does', () => {
    made({ output: () => undefined });
    finish({ ranks: 4 });

    expect(find<HTMLDetailsElement>('.wb-output').open).toBe(true);
  });

  it('is not taken for one before all is known, or where it failed', () => {
    made();
    model.applyMessage({ type: 'run', run: anEndedRun() });
    expect(isPlain()).toBe(false);

    finish({ state: 'failed', error: 'ValueError' });

    expect(isPlain()).toBe(false);
  });
});

test('the last values of a run that is over are those that are stored', async () => {
  made();
  model.applyFrame(aFrame([buckets([0, 1])]));
  const values = { 'main/loss': 0.01482 };
  model.applyMessage({ type: 'run', run: anEndedRun({ values }) });

  const curve = view['_charts']['_charts'].get('loss')!['_given'][0];
  expect(curve.last).toBe(0.01482);
});

test('its last range is that of its ranks, not that of the last bucket', async () => {
  const table = new ValueTable('loss');
  const series = new Series('main/loss');
  series.apply(buckets([0, 1], { ranks: 2 }));
  const look = { colour: 'red', dash: [] };
  const curve: ICurve = {
    ...{
      series,
      label: 'main/loss',
      description: '',
      colour: 0,
      dashed: false
    },
    ...{ last: 0.5, lastRange: [0.4, 0.6] }
  };
  table.rebuild([curve], [look], -1, true);

  table.show([curve], null);
  expect(table.node.textContent).toContain('0.4 – 0.6');
  table.show([curve], 1);
  expect(table.node.textContent).not.toContain('0.4 – 0.6');
});

describe('Stop', () => {
  it('asks once, and says so until the run is stopping', async () => {
    let answer!: () => void;
    const stop = jest.fn(
      () => new Promise<void>(resolve => (answer = resolve))
    );
    made({ stop });
    say();
    find('.wb-stop').click();
    find('.wb-stop').click();

    expect(stop).toHaveBeenCalledTimes(1);
    expect(find('.wb-stop').textContent).toBe('stopping…');
    say({ is_stopping: true });
    answer();
    await settle();
    expect(find('.wb-stop').textContent).toBe('stopping…');
    expect(find('.wb-badge').textContent).toBe('stopping…');
  });

  it('says why it could not ask', async () => {
    made({ stop: () => Promise.reject(new Error('The server is away.')) });
    say();
    find('.wb-stop').click();
    await settle();

    expect(view.node.textContent).toContain(
      'The run could not be stopped: The server is away.'
    );
    expect(find('.wb-stop').textContent).toBe('Stop');
  });

  it('is over when the run is', () => {
    made({ stop: async () => undefined });
    model.applyMessage({ type: 'run', run: anEndedRun() });

    expect(find<HTMLButtonElement>('.wb-stop').disabled).toBe(true);
    expect(find('.wb-stop').hidden).toBe(true);
  });

  it('is not offered where nobody can', () => {
    made();
    say();

    expect(find('.wb-stop').hidden).toBe(true);
  });
});

describe('Resume', () => {
  const stopped = { state: 'stopped', is_resumable: true } as const;
  const end = (changes: Parameters<typeof anEndedRun>[0]) =>
    model.applyMessage({ type: 'run', run: anEndedRun(changes) });

  it('takes the place of Stop once the server offers it, and gives it back', async () => {
    const resume = jest.fn(async () => say({ state: 'queued', now: 1100 }));
    made({ stop: async () => undefined, resume });
    say();
    expect(find('.wb-resume').hidden).toBe(true);

    end(stopped);
    expect(find('.wb-resume').hidden).toBe(false);
    expect(find('.wb-stop').hidden).toBe(true);
    find('.wb-resume').focus();
    find('.wb-resume').click();
    find('.wb-resume').click();
    await settle();

    expect(resume).toHaveBeenCalledTimes(1);
    expect(find('.wb-resume').hidden).toBe(true);
    expect(document.activeElement).toBe(find('.wb-stop'));
  });

  it('says why the run could not be resumed', async () => {
    made({ resume: () => Promise.reject(new Error('It has no snapshot.')) });
    end(stopped);
    find('.wb-resume').click();
    expect(find('.wb-resume').textContent).toBe('resuming…');
    await settle();

    expect(view.node.textContent).toContain(
      'The run could not be resumed: It has no snapshot.'
    );
    expect(find('.wb-resume').textContent).toBe('Resume');
  });

  it('is not offered for a run that is over, nor where nobody can', () => {
    made({ resume: async () => undefined });
    end({ state: 'finished' });
    expect(find('.wb-resume').hidden).toBe(true);
    view.dispose();

    made();
    end(stopped);
    expect(find('.wb-resume').hidden).toBe(true);
  });
});

test('each chart has the marks of its run', () => {
  made();
  model.applyFrame(aFrame([buckets([0, 1])]));
  say({ marks: [{ iteration: 1, text: 'resumed' }] });

  const chart = view['_charts']['_charts'].get('loss')!;
  expect(chart.marks).toEqual([{ iteration: 1, text: 'resumed' }]);
  expect(chart['_words']()).toContain('iteration 1: resumed');
});

test('a failure shows the traceback of its rank', () => {
  made();
  say({
    ...{ state: 'failed', is_ended: true, failed_rank: 2 },
    ...{ failed_host: 'node-1', error: '\x1b[31mValueError\x1b[0m: no' }
  });

  expect(find('.wb-error summary').textContent).toBe(
    'Traceback of rank 2 (node-1)'
  );
  expect(find('.wb-error pre').textContent).toBe('ValueError: no');
});

test('a loss that is not finite is warned of', () => {
  made();
  const remark = 'is not finite';
  const description = 'has no finite value';
  say({ curves: [{ name: 'main/loss', description, remark }] });

  expect(find('.wb-warning:not([hidden])').textContent).toBe(
    'main/loss is not finite'
  );
});

test('where the time goes is a table with the slowest rank marked', () => {
  made();
  model.setSteps({
    type: 'steps',
    ...{ slowest: 1, marked: 1, longest: 0.076 },
    labels: ['rank 0', 'rank 1 ▲ slowest'],
    ranks: [
      [0, 0.05, 0.02, 0.003, 0.001],
      [1, 0.07, 0.002, 0.003, 0.001]
    ]
  });

  const rows = [...view.node.querySelectorAll('.wb-steptable tbody tr')];
  const cells = rows.map(row =>
    [...row.querySelectorAll('th, td:not(.wb-barcell)')].map(
      cell => cell.textContent
    )
  );
  expect(cells).toEqual([
    ['rank 0', '50.0', '20.0', '3.0', '1.0', '74.0'],
    ['rank 1 ▲ slowest', '70.0', '2.0', '3.0', '1.0', '76.0']
  ]);
});

test('output is asked for when it is opened, and no more when it is closed', async () => {
  const output = jest.fn();
  made({ output });
  expect(output).not.toHaveBeenCalled();

  find<HTMLDetailsElement>('.wb-output').open = true;
  await settle();
  find<HTMLDetailsElement>('.wb-output').open = false;
  await settle();

  expect(output.mock.calls).toEqual([[true], [false]]);
});

test('only a change of state is announced, not every iteration', () => {
  made();
  say();
  say({ iteration: 421 });
  const region = find('[aria-live]');
  expect(region.textContent).toBe('');

  model.applyMessage({ type: 'run', run: anEndedRun() });

  expect(region.textContent).toBe('Run digits: finished');
});

test('of several views of a run that are in sight, the first announces', () => {
  const inSight = jest
    .spyOn(HTMLElement.prototype, 'offsetParent', 'get')
    .mockReturnValue(document.body);
  const first = made();
  const second = made();
  say();

  model.applyMessage({ type: 'run', run: anEndedRun() });

  const regions = [...document.querySelectorAll('[aria-live]')];
  expect(regions.map(region => region.textContent)).toEqual([
    ...['Run digits: finished', '']
  ]);
  inSight.mockRestore();
  first.dispose();
  second.dispose();
});

test('a lost connection is told of, and what was seen stays', () => {
  made();
  say();
  model.setConnection('lost');
  expect(find('.wb-remark:not([hidden])').textContent).toBe(
    'Connection lost; trying again…'
  );

  model.setConnection('live');

  expect(view.node.querySelector('.wb-remark:not([hidden])')).toBeNull();
  expect(find('.wb-stateline').textContent).toContain('iteration 420');
});

test('curves are drawn again only for what they show', () => {
  made();
  const curves = (text: string) => [
    { name: 'main/loss', description: text, remark: '' }
  ];
  model.applyFrame(aFrame([buckets([0, 1], { name: 'main/loss' })]));
  say({ curves: curves('falls') });
  const draw = jest.spyOn(Pacer.prototype, 'request');

  say({ curves: curves('falls'), iteration: 421, now: 1036 });
  model.setSteps(null);
  expect(draw).toHaveBeenCalledTimes(0);

  say({ curves: curves('rises'), now: 1037 });
  expect(draw).toHaveBeenCalledTimes(0);
  const marks = [{ iteration: 1, text: 'lost', is_pending: false }];
  say({ curves: curves('rises'), marks, now: 1038 });
  expect(draw).toHaveBeenCalledTimes(1);
  model.applyFrame(aFrame([buckets([2], { name: 'main/loss' })]));
  expect(draw).toHaveBeenCalledTimes(2);
  draw.mockRestore();
});

test('how curves are drawn is remembered for the run', () => {
  made();
  find<HTMLInputElement>('input[type=checkbox]').click();
  view.dispose();
  made();

  expect(find<HTMLInputElement>('input[type=checkbox]').checked).toBe(true);
  view.setStyle({ log: false, smoothing: 0.5 });
  expect(find<HTMLInputElement>('input[type=checkbox]').checked).toBe(true);
});

test('plain keys are kept from JupyterLab, those with Ctrl are not', () => {
  made();
  model.applyFrame(aFrame([buckets([0, 1])]));
  const box = find('input[type=checkbox]');
  const press = (type: string, key: string) =>
    box.dispatchEvent(new KeyboardEvent(type, { key, bubbles: true }));
  const isKept = () => box.hasAttribute('data-lm-suppress-shortcuts');

  box.focus();
  expect(isKept()).toBe(true);
  press('keydown', 'Control');
  expect(isKept()).toBe(false);
  press('keyup', 'Control');
  expect(isKept()).toBe(true);
});
