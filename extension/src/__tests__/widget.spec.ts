/** The widget replays its state, then takes what the kernel sends. */
import { aFrame, aRun, buckets, encoded } from '../run/__tests__/samples';
import type { IFrame } from '../protocol';
import widget from '../widget';

/** The side of anywidget. */
class Model {
  constructor(private readonly state: { [name: string]: unknown }) {}

  readonly sent: unknown[] = [];
  readonly listeners = new Map<string, (...args: unknown[]) => void>();

  get(name: string): never {
    return this.state[name] as never;
  }

  set(name: string, value: unknown): void {
    this.state[name] = value;
    this.listeners.get(`change:${name}`)?.();
  }

  on(event: string, callback: (...args: never[]) => void): void {
    this.listeners.set(event, callback as never);
  }

  off(event: string): void {
    this.listeners.delete(event);
  }

  send(content: unknown): void {
    this.sent.push(content);
  }
}

/** Bytes as they arrive: in the middle of others. */
function bytes(frame: IFrame): DataView {
  const whole = new Uint8Array(encoded(frame));
  const arrived = new Uint8Array(whole.length + 3);
  arrived.set(whole, 3);
  return new DataView(arrived.buffer, 3);
}

const whole = (index: number[], version: number) =>
  aFrame([buckets(index, { reset: true })], { version });

let model: Model;
let el: HTMLElement;
let end: () => void;

function show(state: { [name: string]: unknown }): void {
  model = new Model({
    run: {},
    steps: {},
    snapshot: bytes(aFrame([])),
    ...state
  });
  el = document.createElement('div');
  end = widget.render({ model, el });
}

const titles = () =>
  [...el.querySelectorAll('figcaption')].map(title => title.textContent);

afterEach(() => end());

test('a page that comes late sees what there is, and says hello', () => {
  show({ run: aRun(), snapshot: bytes(whole([0, 1], 4)) });

  expect(el.textContent).toContain('iteration 420 of 1,000');
  expect(titles()).toEqual(['loss']);
  expect(model.sent).toEqual([{ type: 'hello', version: 1 }]);
});

test('points come in', () => {
  show({ run: aRun() });
  expect(titles()).toEqual([]);

  model.listeners.get('msg:custom')!({ type: 'frame' }, [
    bytes(aFrame([buckets([2], { name: 'lr' })], { version: 5 }))
  ]);

  expect(titles()).toEqual(['lr']);
});

test('a late state does not undo newer points', () => {
  show({ snapshot: bytes(whole([0, 1, 2], 9)) });

  model.set('snapshot', bytes(aFrame([buckets([0], { name: 'lr' })])));

  expect(titles()).toEqual(['loss']);
});

test('Stop tells the kernel, and how to stop one that does not listen', async () => {
  show({ run: aRun() });
  el.querySelector<HTMLElement>('.wb-stop')!.click();
  await Promise.resolve();

  expect(model.sent).toContainEqual({ type: 'stop' });
  expect(el.textContent).toContain('interrupt the kernel to stop at once');
});

test('nothing is left behind', () => {
  show({ run: aRun() });
  end();

  expect(model.listeners.size).toBe(0);
  expect(el.children).toHaveLength(0);
});
