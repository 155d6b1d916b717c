import { Dialog } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';

import { ClustersModel } from '../clusters';
import { ClusterCommands } from '../commands';
import { DEFAULTS, Preferences } from '../preferences';
import { runningClusters } from '../running';
import { CommandIDs } from '../tokens';
import { aCluster, aDownCluster, aRun, FakeServer, Refusal } from './samples';

let server: FakeServer;
let model: ClustersModel;
let commands: CommandRegistry;
let preferences: Preferences;

const settle = () => new Promise(resolve => setTimeout(resolve, 5));

/** What the dialog on the page says, after it was answered. */
async function answer(
  how: 'accept' | 'reject',
  value?: string
): Promise<string> {
  const title = () => document.querySelector('.jp-Dialog-header')?.textContent;
  while (!title()) {
    await settle();
  }
  const dialog = document.querySelector('.jp-Dialog')!;
  const said = dialog.textContent ?? '';
  const input = dialog.querySelector('input');
  if (input && value !== undefined) {
    input.value = value;
    input.dispatchEvent(new Event('input', { bubbles: true }));
  }
  dialog.querySelector<HTMLElement>(`.jp-mod-${how}`)!.click();
  await settle();
  return said;
}

beforeEach(async () => {
  server = new FakeServer();
  server.held = [aCluster({ runs: [aRun()] })];
  model = new ClustersModel({ api: server, auto: false });
  preferences = new Preferences();
  commands = new CommandRegistry();
  const workbench = { clusters: model, preferences };
  new ClusterCommands(workbench).addTo(commands);
  await model.refresh();
});

afterEach(() => {
  Dialog.flush();
  model.dispose();
});

it('describes the arguments of every command', async () => {
  for (const id of commands.listCommands()) {
    const { args } = await commands.describedBy(id);
    expect(args).toMatchObject({ type: 'object' });
    expect(commands.label(id)).not.toBe('');
    expect(commands.caption(id)).not.toBe('');
    expect(commands.icon(id)).toBeDefined();
  }
});

it('enables what makes sense', async () => {
  const enabled = () =>
    [
      CommandIDs.start,
      CommandIDs.resize,
      CommandIDs.stop,
      CommandIDs.remove
    ].map(id => commands.isEnabled(id));
  expect(enabled()).toEqual([false, true, true, true]);

  server.held = [aDownCluster()];
  await model.refresh();
  expect(enabled()).toEqual([true, false, false, false]);
});

it('resizes without a word when it is told the size', async () => {
  await commands.execute(CommandIDs.resize, { cluster: 'default', ranks: 3 });

  expect(server.held[0].ranks_asked).toBe(3);
});

it('asks for the size otherwise', async () => {
  const done = commands.execute(CommandIDs.resize);
  const said = await answer('accept', '4');
  await done;

  expect(said).toContain('Ranks (1 to 4)');
  expect(server.held[0].ranks_asked).toBe(4);
});

it('means the only cluster there is, whatever its name', async () => {
  server.held = [aCluster({ name: 'other' }), aDownCluster()];
  await model.refresh();

  await commands.execute(CommandIDs.resize, { ranks: 3 });

  expect(server.asked).toContain('resize other');
});

it('asks before a cluster is deleted, and says which runs end', async () => {
  const done = commands.execute(CommandIDs.remove);
  const said = await answer('reject');
  await done;

  expect(said).toContain('Delete cluster default?');
  expect(said).toContain('digits');
  expect(server.asked).not.toContain('remove default');
});

it('asks about what is true now', async () => {
  const of = (joined: number) =>
    aCluster({ has_nodes: true, node_states: { joined } });
  server.held = [of(4)];
  await model.refresh();
  server.held = [of(2)];

  const done = commands.execute(CommandIDs.remove);
  const said = await answer('reject');
  await done;

  expect(said).toContain('2 nodes and all that belongs to them are deleted.');
});

it('deletes when that is confirmed, or need not be', async () => {
  const done = commands.execute(CommandIDs.remove);
  await answer('accept');
  await done;
  expect(server.asked).toContain('remove default');

  server.held = [aCluster()];
  server.asked = [];
  await model.refresh();
  Object.assign(preferences, {
    _values: { ...DEFAULTS, confirmDelete: false }
  });
  await commands.execute(CommandIDs.remove);

  expect(server.asked).toContain('remove default');
});

it('measures the links, and shows the run that does', async () => {
  const opened = jest.fn();
  commands.addCommand(CommandIDs.openRun, { execute: opened });

  await commands.execute(CommandIDs.measure);

  expect(server.asked).toContain('measure default');
  expect(opened).toHaveBeenCalledWith({ id: '250101-120000-abcd' });
});

it('shows nothing where measuring is refused', async () => {
  const opened = jest.fn();
  commands.addCommand(CommandIDs.openRun, { execute: opened });
  server.refusal = new Refusal(409, 'It is being cancelled.', true);

  await commands.execute(CommandIDs.measure);

  expect(opened).not.toHaveBeenCalled();
  expect(model.refusal('default')).toBe('It is being cancelled.');
});

it('stops the training of every cluster that trains', async () => {
  await commands.execute(CommandIDs.stop);

  expect(server.asked).toContain('stop default');
});

describe('the Running panel', () => {
  const manager = () =>
    runningClusters({ clusters: model, preferences }, commands);

  it('lists the clusters that are there', async () => {
    server.held = [aCluster(), aDownCluster({ name: 'gone' })];
    await model.refresh();
    const items = manager().running({ mode: 'list' });

    expect(items.map(item => item.label())).toEqual(['default']);
    expect(items[0].detail?.()).toBe('2 ranks');
    expect(items[0].labelTitle?.()).toBe('ready, 2 of 2 ranks');
  });

  it('shuts all of them down', async () => {
    server.held = [aCluster(), aCluster({ name: 'other' })];
    await model.refresh();
    manager().shutdownAll();
    await settle();

    expect(server.asked).toEqual(
      expect.arrayContaining(['remove default', 'remove other'])
    );
  });
});
