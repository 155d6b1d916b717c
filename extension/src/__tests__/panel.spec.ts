import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';

import { ClustersModel } from '../clusters';
import { TrainingPanel } from '../panel';
import { Preferences } from '../preferences';
import { SweepTab } from '../sweeps';
import { CommandIDs } from '../tokens';
import {
  aCluster,
  aDownCluster,
  aField,
  aFleet,
  aNode,
  aPlace,
  aRun,
  FakeServer,
  Refusal
} from './samples';

let server: FakeServer;
let model: ClustersModel;
let panel: TrainingPanel;
let executed: [string, object][];
let open: () => void;

const all = (selector: string) => [
  ...panel.node.querySelectorAll<HTMLElement>(selector)
];
const one = (selector: string) => all(selector)[0];
const button = (label: string) =>
  all('button').find(node => node.textContent === label)!;
const canPress = (label: string) =>
  button(label).getAttribute('aria-disabled') !== 'true';
const box = () => one('.wb-size input') as HTMLInputElement;
const facts = () => all('.wb-facts dd').map(node => node.textContent);

/** Let React and Lumino catch up. */
async function settle(): Promise<void> {
  for (let i = 0; i < 5; i++) {
    await new Promise(resolve => setTimeout(resolve, 2));
  }
}

async function look(): Promise<void> {
  await model.refresh();
  await settle();
}

async function enter(node: HTMLElement, text: string): Promise<void> {
  const { set } = Object.getOwnPropertyDescriptor(
    Object.getPrototypeOf(node),
    'value'
  )!;
  set!.call(node, text);
  const kind = node instanceof HTMLSelectElement ? 'change' : 'input';
  node.dispatchEvent(new Event(kind, { bubbles: true }));
  await settle();
}

const type = (text: string) => enter(box(), text);

/** The control with a label. */
const field = (label: string) =>
  all('.wb-controls label')
    .find(node => node.textContent!.startsWith(label))!
    .querySelector<HTMLElement>('input, select, textarea')!;

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) {
    await settle();
  }
}

async function choose(value: string): Promise<void> {
  const select = one('.wb-controls select') as HTMLSelectElement;
  select.value = value;
  select.dispatchEvent(new Event('change', { bubbles: true }));
  await settle();
}

async function press(label: string): Promise<void> {
  button(label).click();
  await settle();
}

async function key(node: HTMLElement, name: string): Promise<void> {
  node.dispatchEvent(
    new KeyboardEvent('keydown', { key: name, bubbles: true })
  );
  await settle();
}

beforeEach(() => {
  server = new FakeServer();
  model = new ClustersModel({ api: server, auto: false });
  const commands = new CommandRegistry();
  executed = [];
  for (const id of Object.values(CommandIDs)) {
    commands.addCommand(id, {
      label: id,
      execute: args => void executed.push([id, { ...args }])
    });
  }
  open = () => {
    const workbench = { clusters: model, preferences: new Preferences() };
    panel = new TrainingPanel(workbench, commands);
    Widget.attach(panel, document.body);
    panel.hide();
    panel.show();
  };
  open();
});

afterEach(() => {
  panel.dispose();
  model.dispose();
});

describe('clusters', () => {
  it('explains what a cluster is where there is none, and starts one', async () => {
    await look();
    expect(one('.wb-empty').textContent).toContain('%%dist_train');
    expect(box().value).toBe('4');

    await press('Start');

    expect(server.asked).toContain('start default');
    expect(one('.wb-cluster-state').textContent).toBe('starting');
  });

  it('sets what is against what was asked for', async () => {
    server.held = [aCluster({ ranks_asked: 4, nodes_asked: 2 })];
    await look();

    expect(facts()).toEqual([...['2 of 4', 'this machine']]);
  });

  it('offers the buttons that make sense', async () => {
    server.held = [aCluster({ runs: [aRun()] })];
    await look();
    expect([canPress('Start'), canPress('Resize')]).toEqual([false, false]);
    expect([canPress('Stop training'), canPress('Delete')]).toEqual([
      true,
      true
    ]);

    await type('3');
    expect(canPress('Resize')).toBe(true);
    await type('5');
    expect(canPress('Resize')).toBe(false);
    expect(box().getAttribute('aria-invalid')).toBe('true');
    expect(button('Resize').title).toBe('The number is out of range.');
    expect(button('Start').title).toBe('The cluster is running.');
  });

  it('says what Start starts', async () => {
    server.held = [aDownCluster()];
    await look();

    expect(button('Start').title).toBe(
      'Start cluster default: 4 ranks, this machine'
    );
  });

  it('removes a cluster that is deleted from the list', async () => {
    server.held = [aDownCluster()];
    await look();
    expect(button('Delete')).toBeUndefined();
    expect(facts()).toEqual([]);

    await press('Remove from list');

    expect(server.asked).toContain('forget default');
    expect(button('Remove from list')).toBeUndefined();
    expect(one('.wb-empty')).toBeDefined();
  });

  it('keeps the focus when a cluster is gone', async () => {
    server.held = [aCluster()];
    await look();
    button('Delete').focus();
    server.held = [aDownCluster()];
    await look();

    expect(document.activeElement?.textContent).toBe('Remove from list');
  });

  it('has the links of a cluster measured', async () => {
    server.held = [aCluster()];
    await look();

    await press('Measure bandwidth');

    expect(executed).toContainEqual([
      CommandIDs.measure,
      { cluster: 'default' }
    ]);
    expect(button('Show result')).toBeUndefined();
  });

  it('does not start a cluster to measure it', async () => {
    server.held = [aCluster({ state: 'failed' })];
    await look();

    expect(canPress('Measure bandwidth')).toBe(false);
    await press('Measure bandwidth');
    expect(executed).toEqual([]);
  });

  it('shows how much of a measurement is done, and cancels it', async () => {
    const run = aRun({ kind: 'measurement', fraction: 0.25 });
    server.held = [aCluster({ runs: [run] })];
    await look();
    const bar = one('.wb-bandwidth progress') as HTMLProgressElement;
    expect(bar.value).toBe(0.25);
    expect(bar.getAttribute('aria-label')).toBe('Progress of the measurement');
    expect(one('.wb-bandwidth').textContent).toContain('running, 25 %');

    await press('Show');
    expect(executed).toContainEqual([CommandIDs.openRun, { id: run.id }]);
    await press('Cancel measuring');
    expect(server.asked).toContain(`stop run ${run.id}`);
  });

  it('keeps the focus when a measurement begins and ends', async () => {
    server.held = [aCluster()];
    await look();
    button('Measure bandwidth').focus();
    server.held = [aCluster({ runs: [aRun({ kind: 'measurement' })] })];
    await look();

    expect(document.activeElement?.textContent).toBe('Cancel measuring');
  });

  it('leads to what was measured last', async () => {
    server.held = [aCluster({ measured: { run: 'old', time: 1000 } })];
    await look();
    expect(one('.wb-bandwidth').textContent).toContain('measured Jan 1');

    await press('Show result');

    expect(executed).toContainEqual([CommandIDs.openRun, { id: 'old' }]);
  });

  it('keeps a number that is being edited, and shows what another page asked', async () => {
    server.held = [aCluster()];
    await look();
    await type('3');
    server.held = [aCluster({ ranks_asked: 4, ranks_wished: 4, revision: 2 })];
    await look();

    expect(box().value).toBe('3');
    expect(facts()[0]).toBe('2 of 4');
  });

  it('follows what was asked for again once the edit is sent or taken back', async () => {
    server.held = [aCluster()];
    await look();
    await type('3');
    await press('Resize');
    server.held = [aCluster({ ranks_asked: 4, ranks_wished: 4 })];
    await look();
    expect(box().value).toBe('4');

    await type('1');
    await key(box(), 'Escape');
    expect(box().value).toBe('4');
  });

  it('takes more ranks than slots only when ranks may share cores', async () => {
    server.held = [aDownCluster()];
    await look();
    await type('8');
    expect(canPress('Start')).toBe(false);

    one('.wb-oversubscribe input').click();
    await settle();

    expect(canPress('Start')).toBe(true);
  });

  it('says in a sentence that a cluster has gone between look and click', async () => {
    server.held = [aCluster()];
    await look();
    await type('3');
    server.refusal = new Refusal(404, "There is no cluster 'default'.", true);
    await press('Resize');
    server.refusal = null;
    server.held = [];
    await look();

    expect(one('.wb-refusal').textContent).toBe(
      "There is no cluster 'default'."
    );
  });

  it('tells nodes, price, money and time to live as they are', async () => {
    server.held = [aFleet()];
    await look();

    expect(facts()).toEqual([
      ...['1 of 1', '1 of 2', 'rehearsal (nothing is bought)'],
      ...['$0.40/h', '$0.10', '$1.90 of $2.00 left', '2 h']
    ]);
    expect(one('.wb-nodes summary').textContent).toBe('1 booting, 1 joined');
    expect(all('.wb-node').map(node => node.textContent)).toEqual([
      'i-1 (head) joined10.0.0.1 · g4dn.xlarge, us-east-1a · 1 slot · $0.20/h · $0.05 so far',
      'i-2 booting10.0.0.1 · g4dn.xlarge, us-east-1a · 1 slot · $0.20/h · $0.05 so farWaits.'
    ]);
  });

  it('shows each purchase as it is tried', async () => {
    const refused = 'refused' as const;
    server.held = [
      aFleet({
        purchases: [
          { what: '2 nodes of a', outcome: refused, message: 'No capacity.' },
          { what: '2 nodes of b', outcome: 'written', message: '' }
        ]
      })
    ];
    await look();

    expect(all('.wb-purchases li').map(node => node.textContent)).toEqual([
      '2 nodes of a: refusedNo capacity.',
      '2 nodes of b: being tried'
    ]);
  });

  it('resizes by nodes where the place is not this machine, down to none', async () => {
    server.held = [aFleet()];
    await look();
    expect(one('.wb-oversubscribe')).toBeUndefined();

    await type('0');
    await press('Resize');

    expect(server.asked).toContain('resize default');
    expect(server.held[0].nodes_asked).toBe(0);
  });

  it('lets a cluster with a time to live live longer', async () => {
    server.held = [aFleet()];
    await look();

    await press('Extend');

    expect(server.asked).toContain('extend 3600 default');
  });

  it('keeps the nodes of a cluster that has nothing to do by one click', async () => {
    const message = 'There is nothing to do: 4 nodes will be given back.';
    server.held = [aFleet({ message, releases: 1_700_000_300 })];
    await look();
    expect(one('.wb-cluster-message').textContent).toBe(message);

    await press('Keep nodes');

    expect(server.asked).toContain('keep default');
    expect(button('Keep nodes')).toBeUndefined();
  });

  it('leaves deleting to the command, which asks', async () => {
    server.held = [aCluster()];
    await look();
    await press('Delete');

    expect(executed).toEqual([[CommandIDs.remove, { cluster: 'default' }]]);
    expect(server.asked).not.toContain('remove default');
  });

  it('says what is wrong with the store above what was last known', async () => {
    server.held = [aCluster({ message: 'Rank 1 ended.' })];
    await look();
    server.refusal = new Refusal(503, 'The store is locked.', true);
    await look();

    expect(one('.wb-refusal').textContent).toBe('The store is locked.');
    expect(one('.wb-cluster-message').textContent).toBe('Rank 1 ended.');
  });

  it('says what is to happen to a node, and to a run when the size is edited', async () => {
    const notice = 'node i-2 will be reclaimed in 1 min 58 s';
    const end = 'A resize waits for the end of run digits.';
    server.held = [
      aFleet({
        resizing: { step: end, epoch: end, end },
        nodes: [aNode({ head: true }), aNode({ id: 'i-2', notice })]
      })
    ];
    await look();

    expect(one('.wb-notice').textContent).toBe(notice);
    expect(all('.wb-effect')).toEqual([]);
    await type('3');
    expect(one('.wb-effect').textContent).toContain('run digits');
    expect(all('.wb-controls select')).toEqual([]);
  });

  it('asks when a run moves, if that makes a difference', async () => {
    const [step, epoch, end] = ['Next.', 'Epoch.', 'End.'];
    const held = aFleet({ resizing: { step, epoch, end } });
    server.held = [held];
    await look();
    expect(all('.wb-controls select')).toEqual([]);
    await type('3');

    expect(one('.wb-effect').textContent).toBe('Next.');
    await choose('epoch');
    expect(one('.wb-effect').textContent).toBe('Epoch.');
    one('.wb-controls').dispatchEvent(
      new Event('submit', { bubbles: true, cancelable: true })
    );
    await look();
    expect(server.sizes).toEqual([{ nodes: 3, at: 'epoch' }]);

    server.held = [{ ...held, resizing: { step, epoch: null, end } }];
    await look();
    await type('4');
    const times = all('.wb-controls option').map(
      option => (option as HTMLOptionElement).value
    );
    expect(times).toEqual(['step', 'end']);
    expect(one('.wb-effect').textContent).toBe('Next.');
  });

  it('has a name for every control', async () => {
    server.held = [aCluster(), aFleet({ name: 'spot' })];
    server.listed = [aRun()];
    await look();

    const ours = all('.wb-clusters *, .wb-runs *');
    for (const node of ours.filter(one => one.matches('button, input, svg'))) {
      const name =
        node.getAttribute('aria-label') ||
        node.getAttribute('title') ||
        node.closest('label')?.textContent ||
        node.textContent;
      expect(name || node.getAttribute('aria-hidden')).toBeTruthy();
    }
  });
});

describe('the form about nodes', () => {
  const fields = [
    aField(),
    aField({ name: 'region', label: 'Region', kind: 'text' }),
    aField({ name: 'spread', label: 'Spread', kind: 'yes or no' }),
    aField({
      ...{ name: 'prepare', label: 'Prepare script' },
      ...{ kind: 'several lines', is_folded: true }
    })
  ];
  const cloud = aPlace({
    ...{ name: 'cloud', label: 'cloud (paid)', has_nodes: true, fields }
  });
  const hosts = aPlace({
    ...{ name: 'hosts', label: 'own hosts', has_nodes: true },
    lists_hosts: true
  });
  const offers = {
    title: 'What fits, best first',
    columns: ['type', 'price now', 'past days'],
    rows: [
      {
        cells: ['big', '$0.20/h', ''],
        ...{ chart: 'from $0.10/h to $0.20/h', range: '$0.10–$0.20/h' },
        history: [
          [0, 0.1],
          [10, 0.2]
        ] as [number, number][]
      }
    ]
  };
  const unknown = { refusal: 'Press Show what fits.', says: 'Press it.' };
  const known = { says: 'Total $0.40/h.', price: 0.4, types: ['big'], offers };

  const choosePlace = async (name: string) => {
    server.places = [aPlace(), cloud, hosts];
    await look();
    await until(() => !!one('.wb-mod-wide select'));
    await enter(field('Provider'), name);
  };

  it('asks what the chosen provider declares, and folds some of it', async () => {
    await choosePlace('cloud');

    const labels = all('.wb-fields label').map(node => node.textContent);
    expect(labels).toEqual([
      ...['Nodes', 'Min nodes', 'Max nodes', 'GPUs per node', 'Region'],
      ...['Spread', 'Prepare script']
    ]);
    expect(field('Prepare').closest('details')!.open).toBe(false);
    expect(one('.wb-controls').textContent).not.toContain('Ranks');
  });

  it('starts nodes once their total was shown', async () => {
    server.estimated = unknown;
    await choosePlace('cloud');
    await enter(field('Nodes'), '3');
    await until(() => button('Start').title === unknown.refusal);
    await press('Start');
    expect(server.sizes).toEqual([]);

    server.estimated = { ...known, region: 'east' };
    await press('Show what fits');
    expect(one('.wb-table').textContent).toContain('big$0.20/h$0.10–$0.20/h');
    const said = () => one('.wb-cluster > .wb-said')?.textContent;
    expect(said()).toContain('buy these nodes with Start');
    await until(() => canPress('Start'));
    await enter(field('Instance type'), 'big');
    await until(() => canPress('Start'));
    await press('Start');

    const [{ form, agreed }] = server.sizes;
    expect(agreed).toBe(0.4);
    expect(form).toMatchObject({ provider: 'cloud', nodes: 3, type: 'big' });
    expect(form!.values).toMatchObject({ region: 'east', spread: false });
  });

  it('refuses what is not valid with the sentence of the server', async () => {
    const says = 'Budget, $ must be at least 0, not -2.';
    server.estimated = { refusal: says, says };
    await choosePlace('cloud');
    await until(() => button('Start').title === says);
    expect(all('.wb-controls .wb-said')[0].textContent).toBe(says);

    await enter(field('Nodes'), 'x');
    expect(button('Start').title).toBe('The number is out of range.');
    await enter(field('Nodes'), '0');
    expect(button('Start').title).toBe(
      'With 0 nodes there is nothing to start.'
    );
  });

  it('says nothing of a provider that is no longer chosen', async () => {
    server.estimated = known;
    await choosePlace('cloud');
    await press('Show what fits');
    expect(one('.wb-cluster > .wb-said')).toBeDefined();

    await enter(field('Provider'), 'hosts');

    expect(one('.wb-cluster > .wb-said')).toBeUndefined();
  });

  it('shows what a dry run found', async () => {
    const row = ['ec2:RunInstances', '✗ problem', 'denied', 'Allow it.'];
    const columns = ['check', 'verdict', 'found', 'remedy'];
    const findings = { title: '1 problem', columns, rows: [row] };
    server.estimated = { ...known, findings: { ...findings, is_open: true } };
    await choosePlace('cloud');
    await press('Show what fits');

    const shown = all('.wb-more').find(
      node => !node.querySelector('.wb-fields')
    )!;
    expect((shown as HTMLDetailsElement).open).toBe(true);
    expect(shown.textContent).toContain(row.join(''));
  });

  it('takes up what was asked for last, and keeps what is typed', async () => {
    const values = { gpus: '2', region: 'west' };
    server.last = { provider: 'cloud', nodes: 5, type: 'big', values };
    await choosePlace('cloud');
    expect((field('Nodes') as HTMLInputElement).value).toBe('5');
    expect((field('GPUs') as HTMLInputElement).value).toBe('2');

    await enter(field('GPUs'), '4');
    await enter(field('Provider'), 'hosts');
    await enter(field('Provider'), 'cloud');

    expect((field('GPUs') as HTMLInputElement).value).toBe('4');
  });

  it('counts the hosts of a file, and starts when their keys are trusted', async () => {
    const key = { address: 'a', kind: 'ssh-ed25519', fingerprint: 'SHA256:a' };
    server.unknown = [{ ...key, line: 'a ssh-ed25519 AAAA' }];
    let isYes = false;
    const asked: string[] = [];
    panel.dispose();
    model.dispose();
    model = new ClustersModel({
      ...{ api: server, auto: false },
      confirm: async ({ sentence, keys = [] }) => {
        asked.push(`${sentence} ${keys.map(one => one.fingerprint).join()}`);
        return isYes;
      }
    });
    open();
    await choosePlace('hosts');
    server.estimated = { hosts: 7 };
    await enter(field('Host file'), '/etc/hosts');
    await press('Read file');
    await until(() => (field('Nodes') as HTMLInputElement).value === '7');
    await until(() => canPress('Start'));

    await press('Start');
    await until(() => !!one('.wb-refusal'));
    expect(one('.wb-refusal').textContent).toContain('no key is trusted');
    expect(server.sizes).toEqual([]);

    isYes = true;
    await press('Start');
    await until(() => server.sizes.length > 0);
    expect(asked[1]).toContain('SHA256:a');
    expect(server.asked).toContain('keys default a ssh-ed25519 AAAA');
    expect(server.sizes[0].form!.hosts).toBe('a\nb slots=2\n');
  });

  it('tells what is left of nodes that were deleted', async () => {
    server.held = [aFleet()];
    await look();
    await model.remove('default');
    await look();
    expect(server.asked).not.toContain('proof default 0.1');

    server.held = [
      aFleet({ is_wanted: false, state: 'down', nodes: [], spent: 0 })
    ];
    await look();
    await until(() => !model.isBusy('default'));
    await look();

    expect(server.asked).toContain('proof default 0.1');
    expect(one('.wb-cluster > .wb-said').textContent).toBe(
      'Nothing of default is left.'
    );
  });
});

describe('recent sweeps', () => {
  const sweep = {
    id: 's',
    name: 'fit',
    progress: '2 running, 1 finished of 4 trials',
    is_over: false,
    lines: ['fit: 2 running, 1 finished of 4 trials'],
    headers: ['trial', 'loss'],
    rows: [['0', '0.5']],
    picture: 'iVBOR',
    says: '1 trial of fit'
  };

  it('say how far they are, and open in a tab', async () => {
    await until(() => one('.wb-sweeps').textContent !== '');
    expect(one('.wb-sweeps').textContent).toContain('%%dist_sweep');
    server.sweepsHeld = [sweep];
    panel.hide();
    panel.show();
    await until(() => all('.wb-sweeps button').length > 0);

    all('.wb-sweeps button')[0].click();

    expect(one('.wb-sweeps').textContent).toContain('fit2 running, 1 finished');
    expect(executed).toEqual([[CommandIDs.openSweep, { id: 's' }]]);
  });

  it('are a table and a picture in their tab', async () => {
    server.sweepsHeld = [{ ...sweep, is_over: true }];
    const tab = new SweepTab('s', () => model.sweep('s'));
    Widget.attach(tab, document.body);
    const cells = () => [...tab.node.querySelectorAll('td')];
    await until(() => cells().length > 0);

    expect(cells().map(node => node.textContent)).toEqual(['0', '0.5']);
    const picture = tab.node.querySelector('img')!;
    expect(picture.getAttribute('alt')).toBe('1 trial of fit');
    expect(tab.title.label).toBe('Sweep fit');
    tab.dispose();
  });
});

describe('recent runs', () => {
  const row = (place: number, column: string) =>
    all('.wb-listed-run')[place].querySelector<HTMLElement>(
      `[data-column=${column}]`
    )!;

  beforeEach(async () => {
    server.held = [aCluster()];
    server.listed = [
      aRun({ id: 'a', name: 'first' }),
      aRun({ id: 'b', name: 'second', state: 'finished', is_ended: true }),
      aRun({ id: 'c', name: 'third', state: 'failed', is_ended: true })
    ];
    await look();
  });

  it('say why they failed, whole, to who points at them', async () => {
    const message =
      'Rank 0 on node-0 failed: GradientError: The gradient of /l1/W on rank 2 is not finite.';
    server.listed = [aRun({ state: 'failed', is_ended: true, message })];
    await look();

    expect(row(0, 'open').title.split('\n')[1]).toBe(message);
  });

  it('are listed with state and last value', () => {
    expect(all('.wb-listed-name').map(node => node.textContent)).toEqual([
      ...['first', 'running, 42 %', 'second', 'finished', 'third', 'failed']
    ]);
    expect(row(0, 'open').textContent).toContain('0.5');
  });

  it('show their state as a shape, and a curve only where there is one', async () => {
    server.listed = [
      aRun({ state: 'failed', is_ended: true, sparkline_name: '' }),
      aRun({ id: 'b' })
    ];
    await look();

    expect(row(0, 'open').querySelector('.wb-state-failed')).not.toBeNull();
    expect(row(0, 'open').querySelector('svg')).toBeNull();
    expect(row(1, 'open').querySelector('svg')).not.toBeNull();
  });

  it('that only printed are folded', async () => {
    server.listed = [
      aRun({ id: 'a', name: 'print', only_printed: true, is_ended: true }),
      aRun({ id: 'b', name: 'fit' })
    ];
    await look();
    const names = () => all('.wb-listed-open .wb-listed-name');
    expect(names()[0].textContent).toBe('fit');
    expect(all('.wb-listed-run').length).toBe(1);

    await press('Show 1 run without values');

    expect(all('.wb-listed-run').length).toBe(2);
    expect(button('Hide 1 run without values')).toBeDefined();
  });

  it('open in a tab', () => {
    row(1, 'open').click();

    expect(executed).toEqual([[CommandIDs.openRun, { id: 'b' }]]);
  });

  it('are compared when at least two are chosen', async () => {
    row(2, 'choose').click();
    await settle();
    expect(canPress('Compare: choose one more')).toBe(false);

    row(0, 'choose').click();
    await settle();
    await press('Compare 2 runs');

    expect(executed).toEqual([[CommandIDs.compare, { ids: ['c', 'a'] }]]);
    await press('Clear');
    expect(one('.wb-chosen')).toBeUndefined();
  });

  it('can be stopped while they go on', async () => {
    expect(row(1, 'stop')).toBeNull();

    row(0, 'stop').click();
    await settle();

    expect(server.asked).toContain('stop run a');
  });

  it('are one stop of the Tab key, and the arrow keys lead on', async () => {
    const stops = () => all('[data-column=open]').map(node => node.tabIndex);
    expect(stops()).toEqual([0, -1, -1]);

    row(0, 'open').focus();
    await key(row(0, 'open'), 'ArrowDown');
    expect(document.activeElement).toBe(row(1, 'open'));
    expect(stops()).toEqual([-1, 0, -1]);
    await key(row(1, 'open'), 'End');
    expect(document.activeElement).toBe(row(2, 'open'));
    await key(row(2, 'open'), 'Home');
    expect(document.activeElement).toBe(row(0, 'open'));
  });

  it('are asked for only while the panel is in sight', async () => {
    panel.hide();
    server.asked = [];
    await look();

    expect(server.asked).toEqual(['clusters']);
  });
});
