/** The form below a cell shows the kernel's state, and asks the kernel. */
import widget, { type IPanelModel } from '../clusterwidget';
import { aCluster, aPlace } from './samples';

/** The side of anywidget. */
class Model {
  state: { [name: string]: unknown } = {
    cluster: 'lab',
    clusters: { clusters: [], slots: 4, usual_ranks: 4, max_ranks: 64 },
    form: { places: [aPlace()], asked: null }
  };
  readonly sent: { id: number; method: string; path: string[] }[] = [];
  readonly listeners = new Map<string, (...args: unknown[]) => void>();

  get(name: string): never {
    return this.state[name] as never;
  }

  show(...clusters: unknown[]): void {
    this.state.clusters = { ...(this.state.clusters as object), clusters };
    this.listeners.get('change:clusters')?.();
  }

  on(event: string, callback: (...args: never[]) => void): void {
    this.listeners.set(event, callback as never);
  }

  off(event: string): void {
    this.listeners.delete(event);
  }

  send(content: unknown): void {
    this.sent.push(content as never);
  }

  answer(message: object): void {
    const { id } = this.sent[this.sent.length - 1];
    this.listeners.get('msg:custom')!({ id, ...message });
  }
}

let model: Model;
let el: HTMLElement;
let end: () => void;

const settle = () => new Promise(resolve => setTimeout(resolve, 5));
const button = (label: string) =>
  [...el.querySelectorAll('button')].find(node => node.textContent === label)!;
const canPress = (label: string) =>
  button(label)?.getAttribute('aria-disabled') === 'false';

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) {
    await settle();
  }
}

beforeEach(() => {
  model = new Model();
  el = document.createElement('div');
  end = widget.render({ model: model as IPanelModel, el });
});

afterEach(() => end());

test('a cluster that was never asked for can be started', async () => {
  await until(() => canPress('Start'));
  expect(el.querySelector('h4')!.textContent).toBe('Cluster lab');
  expect(button('Delete')).toBeUndefined();
  button('Start').click();

  expect(model.sent[0]).toMatchObject({
    ...{ method: 'PUT', path: ['clusters', 'lab'] },
    body: { ranks: 4, oversubscribe: false }
  });
  model.answer({ is_heard: true });
  const starting = aCluster({ name: 'lab', state: 'starting' });
  model.show(starting);
  model.answer({ answer: starting });
  await until(() => el.textContent!.includes('starting'));
});

test('a refusal is shown, and a price is asked about in place', async () => {
  model.show(aCluster({ name: 'lab', has_nodes: true, nodes_asked: 2 }));
  await until(() => canPress('Resize'));
  button('Resize').click();
  model.answer({ refusal: { message: 'It would cost $2/h.', price: 2 } });
  await until(() => canPress('Start at that price'));
  expect(el.querySelector('[role=alert]')!.textContent).toContain('$2/h');

  button('Start at that price').click();
  await until(() => model.sent.length === 2);
  expect(model.sent[1]).toMatchObject({ body: { nodes: 1, agreed: 2 } });
  model.answer({ refusal: { message: 'The disk is full.', price: null } });

  await until(() => !!el.querySelector('.wb-refusal'));
  expect(el.querySelector('.wb-refusal')!.textContent).toBe(
    'The disk is full.'
  );
});

test('Delete asks first', async () => {
  model.show(aCluster({ name: 'lab' }));
  await until(() => canPress('Delete'));
  button('Delete').click();
  await until(() => canPress('Cancel'));
  expect(el.querySelector('[role=alert]')!.textContent).toContain(
    'Its ranks end.'
  );
  button('Cancel').click();
  await until(() => !button('Cancel'));
  expect(model.sent).toEqual([]);

  button('Delete').click();
  await until(() => canPress('Cancel'));
  [...el.querySelectorAll('button')]
    .find(
      node => node.closest('[role=alert]') && node.textContent === 'Delete'
    )!
    .click();
  await until(() => model.sent.length === 1);
  expect(model.sent[0]).toMatchObject({ method: 'DELETE' });
});

test('the question says what is true now', async () => {
  const of = (joined: number) =>
    model.show(
      aCluster({ name: 'lab', has_nodes: true, node_states: { joined } })
    );
  of(4);
  await until(() => canPress('Delete'));
  button('Delete').click();
  const says = (words: string) =>
    el.querySelector('[role=alert]')?.textContent?.includes(words) ?? false;
  await until(() => says('4 nodes and all that belongs to them are deleted.'));

  of(2);

  await until(() => says('2 nodes and all that belongs to them are deleted.'));
});

test('a kernel that does not listen is said to be busy', async () => {
  await until(() => canPress('Start'));
  button('Start').click();
  await until(() => el.textContent!.includes('The kernel is busy'));

  model.answer({ is_heard: true });

  await until(() => !el.textContent!.includes('The kernel is busy'));
});

test('nothing is left behind', async () => {
  await until(() => canPress('Start'));
  end();

  expect(model.listeners.size).toBe(0);
  expect(el.children).toHaveLength(0);
});
