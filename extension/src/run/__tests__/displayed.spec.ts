/** What ranks display is shown in its place, safely, whoever made it. */
import type { IDisplayed, Piece } from '../../protocol';
import { displayed } from '../displayed';
import { RunModel } from '../model';
import { Output } from '../output';
import { RunView } from '../view';
import { aRun, show as showPage } from './samples';

const what = (
  place: number,
  data: IDisplayed['data'] = { 'text/plain': `<${place}>` }
): IDisplayed => ({ place, data, metadata: {} });
const show = (rank: number, place: number): Piece => [
  ...([rank, 'display', `<${place}>\n`] as const),
  what(place)
];
const texts = (output: Output) => output.lines.map(line => line.text);
const settle = () => new Promise(resolve => setTimeout(resolve, 150));

describe('Output', () => {
  it('has displays in order with the lines', () => {
    const output = new Output();
    output.take([0, 'stdout', 'a\nb']);
    output.take(show(0, 7));
    output.take([0, 'stdout', 'c\n']);

    expect(texts(output)).toEqual(['a', 'b', '<7>', 'c']);
    expect(output.lines[2].place).toBe(7);
    expect(output.displayed(7)).toEqual(what(7));
  });

  it('takes an update for what is there, and no other', () => {
    const output = new Output();
    output.take(show(0, 7));
    output.take([0, 'update', '', what(7, { 'text/plain': 'new' })]);
    output.take([0, 'update', '', what(8)]);

    expect(output.displayed(7)!.data['text/plain']).toBe('new');
    expect(output.displayed(8)).toBeUndefined();
  });

  it('takes away what a rank clears, and nothing of others', () => {
    const output = new Output();
    output.take([0, 'stdout', 'a\nhalf']);
    output.take(show(0, 7));
    output.take(show(1, 8));
    output.take([0, 'clear', '']);
    output.take([0, 'stdout', 'b\n']);

    expect(texts(output)).toEqual(['<8>', 'b']);
    expect(output.displayed(7)).toBeUndefined();
    expect(output.displayed(8)).toEqual(what(8));
    expect(output.clearings).toBe(1);
    expect(output.lines.map(line => line.number)).toEqual([3, 4]);
  });

  it('keeps the newest displays, in bounded memory', () => {
    const output = new Output();
    for (let place = 1; place < 40; place++) {
      const data = { 'text/plain': 'x'.repeat(1_000_000) };
      output.take([0, 'display', '<big>\n', what(place, data)]);
    }

    expect(output.displayed(1)).toBeUndefined();
    expect(output.displayed(39)).toBeDefined();
    expect(output.lines).toHaveLength(39);
  });
});

describe('displayed', () => {
  const html = (data: IDisplayed['data']) => displayed(what(1, data)).innerHTML;

  it('is an image where there is one', () => {
    const node = displayed({
      place: 1,
      data: { 'text/plain': 'a "figure"', 'image/png': 'AAAA' },
      metadata: { 'image/png': { width: 3 } }
    });
    const image = node.querySelector('img')!;

    expect(image.getAttribute('src')).toBe('data:image/png;base64,AAAA');
    expect(image.alt).toBe('a "figure"');
    expect(image.getAttribute('width')).toBe('3');
  });

  it.each([
    { 'text/html': '<img src=x onerror="alert(1)">' },
    { 'text/markdown': '<script>alert(1)</script>' },
    { 'text/plain': '<img src=x onerror="alert(1)">' },
    { 'image/png': 'x" onerror="alert(1)' },
    { 'image/png': '../../api/contents' },
    {
      'image/svg+xml': '<svg onload="alert(1)"><script>alert(1)</script></svg>'
    },
    { 'application/javascript': 'alert(1)' }
  ] as IDisplayed['data'][])('of %j makes nothing that runs', data => {
    const node = displayed(what(1, data));

    expect(node.querySelector('script, svg, [onerror], [onload]')).toBeNull();
    for (const { src } of node.querySelectorAll('img')) {
      expect(src).toMatch(/^data:image\//);
    }
  });

  it('has what needs to be sanitized rendered by who can', () => {
    const render = jest.fn(() => document.createElement('table'));
    const node = displayed(what(1, { 'text/html': '<table>' }), render);

    expect(render).toHaveBeenCalledWith('text/html', '<table>');
    expect(node.innerHTML).toBe('<table></table>');
    expect(html({ 'text/html': '<b>' })).toBe('<pre>&lt;b&gt;</pre>');
  });
});

describe('a view', () => {
  let model: RunModel;
  let view: RunView;
  const output = jest.fn();
  const take = (...pieces: Piece[]) =>
    model.applyMessage({ type: 'output', after: 1, skipped: 0, pieces });
  const box = () => view.node.querySelector<HTMLDetailsElement>('.wb-output')!;
  const made = (isBeside = false) => {
    const actions = { output };
    view = new RunView({
      ...{ model, actions },
      isBeside: () => isBeside
    });
    document.body.append(view.node);
  };

  beforeEach(() => {
    output.mockClear();
    showPage(true);
    class Observer {
      constructor(
        private readonly told: (entries: { isIntersecting: boolean }[]) => void
      ) {}
      observe = () => this.told([{ isIntersecting: true }]);
      disconnect = jest.fn();
    }
    Object.assign(globalThis, { IntersectionObserver: Observer });
    model = new RunModel(`run-${Math.random()}`);
  });

  afterEach(() => view.dispose());

  it('opens what rank 0 displays, where nothing else shows it', async () => {
    made();
    model.applyMessage({ type: 'run', run: aRun({ displays: 1 }) });
    await settle();

    expect(box().open).toBe(true);
    expect(box().querySelector('select')!.value).toBe('0');
    expect(output).toHaveBeenCalledWith(true);
  });

  it.each([
    [true, 1],
    [false, 0]
  ])('beside it %p, with %p displays, opens nothing', (isBeside, displays) => {
    made(isBeside);
    model.applyMessage({ type: 'run', run: aRun({ displays }) });

    expect(box().open).toBe(false);
  });

  it('opens nothing that somebody closed', async () => {
    made();
    box().querySelector('summary')!.click();
    box().open = false;
    model.applyMessage({ type: 'run', run: aRun({ displays: 1 }) });
    await settle();

    expect(box().open).toBe(false);
  });

  it('shows displays among the lines, their updates and clearings', async () => {
    made();
    box().open = true;
    await settle();
    take([1, 'stdout', 'a\n'], show(1, 7));
    await settle();
    const before = box().querySelector('.wb-display')!;
    expect(before.textContent).toBe('<7>');

    take([1, 'update', '', what(7, { 'text/plain': 'new' })]);
    await settle();
    expect(box().querySelectorAll('.wb-display')).toHaveLength(1);
    expect(box().querySelector('.wb-display')!.textContent).toBe('new');

    take([0, 'stdout', 'c\n'], [1, 'clear', ''], [1, 'stdout', 'b\n']);
    await settle();
    expect(box().querySelector('.wb-display')).toBeNull();
    take([1, 'stdout', 'd\n']);
    await settle();
    expect(box().querySelector('pre')!.textContent).toBe(
      'rank 0  c\nrank 1  b\nrank 1  d\n'
    );
  });
});
