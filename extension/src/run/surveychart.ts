/**
 * Draw how much an allreduce moves at each size, against the link's limit and its rating.
 */
import type { IExchange, ISurvey } from '../protocol';
import { element } from './dom';
import { number, percent } from './numbers';
import { gigabits, sizeText } from './sizes';

const SVG = 'http://www.w3.org/2000/svg';
const [WIDTH, HEIGHT] = [470, 260];
const [LEFT, RIGHT, TOP, BOTTOM] = [44, 12, 10, 42];
const BITS = 8e-9;

/** The sizes that one way to exchange was measured with. */
interface IWay {
  name: string;
  found: IExchange[];
}

/** The curves, their legend, and in words what they show. */
export function surveyChart(survey: ISurvey): HTMLElement {
  const ways = waysOf(survey);
  const limit = limitOf(survey);
  const { rating } = survey;
  const svg = make('svg', {
    class: 'wb-surveychart',
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    role: 'img',
    'aria-label': [
      'Bus bandwidth of an allreduce over its size',
      ...ways.map(way => reach(way, limit))
    ].join('. ')
  });
  const sizes = survey.exchanges.map(one => one.nbytes);
  const rates = survey.exchanges.map(one => one.busbw);
  const top = 1.05 * BITS * Math.max(...rates, limit, limit ? rating : 0);
  const [first, last] = [Math.min(...sizes), Math.max(...sizes)].map(Math.log);
  const x = (nbytes: number) =>
    LEFT +
    ((Math.log(nbytes) - first) / (last - first || 1)) * (WIDTH - LEFT - RIGHT);
  const y = (gbits: number) =>
    HEIGHT - BOTTOM - (gbits / (top || 1)) * (HEIGHT - TOP - BOTTOM);
  svg.append(...axes(x, y, top, [Math.exp(first), Math.exp(last)]));
  const level = (bandwidth: number, kind: string) =>
    svg.append(
      make('path', {
        class: `wb-level wb-level-${kind}`,
        d: `M${LEFT} ${y(BITS * bandwidth)}H${WIDTH - RIGHT}`
      })
    );
  if (limit) {
    level(limit, 'limit');
  }
  if (limit && rating) {
    level(rating, 'rating');
  }
  ways.forEach(({ found }, number) => {
    const points = found.map(one => [x(one.nbytes), y(BITS * one.busbw)]);
    const line = points.map(([a, b]) => `${fix(a)} ${fix(b)}`).join('L');
    const curve = make('g', { class: `wb-way wb-way-${number % 3}` });
    curve.append(
      make('path', { d: `M${line}`, fill: 'none' }),
      ...points.map(([a, b]) => mark(number % 3, a, b))
    );
    svg.append(curve);
  });
  const legend = element('ul', { class: 'wb-legend' });
  ways.forEach((way, number) =>
    legend.append(entry(`wb-way wb-way-${number % 3}`, way.name, number % 3))
  );
  if (limit) {
    const text = `slowest link, ${gigabits(limit)} Gbit/s`;
    legend.append(entry('wb-level wb-level-limit', text));
  }
  if (limit && rating) {
    const text = `rated, ${gigabits(rating)} Gbit/s`;
    legend.append(entry('wb-level wb-level-rating', text));
  }
  const words = ways.map(way => reach(way, limit)).join('; ');
  return element(
    'figure',
    { class: 'wb-exchange' },
    svg,
    legend,
    element('figcaption', { text: words })
  );
}

/** What bounds an exchange: no link of the ring may be slower; 0 where there is none. */
function limitOf({ links, slowest }: ISurvey): number {
  return slowest ? (links[slowest[0]][slowest[1]] ?? 0) : 0;
}

function waysOf({ exchanges }: ISurvey): IWay[] {
  const names = [...new Set(exchanges.map(one => one.way))];
  return names.map(way => {
    const found = exchanges
      .filter(one => one.way === way)
      .sort((a, b) => a.nbytes - b.nbytes);
    const kinds = [...new Set(found.map(one => one.algorithm))].filter(Boolean);
    const name = kinds.length ? `${way} (${kinds.sort().join(', ')})` : way;
    return { name, found };
  });
}

/** How far one way comes at best. */
function reach({ name, found }: IWay, limit: number): string {
  const best = found.reduce((a, b) => (b.busbw > a.busbw ? b : a));
  const [rate, size] = [gigabits(best.busbw), sizeText(best.nbytes)];
  return limit
    ? `${name} reaches ${rate} Gbit/s at ${size}, ${percent(best.busbw / limit)} of the slowest link`
    : `${name} reaches ${rate} Gbit/s at ${size}`;
}

function* axes(
  x: (nbytes: number) => number,
  y: (gbits: number) => number,
  top: number,
  [first, last]: number[]
): Iterable<Element> {
  const step = stepOf(top / 4);
  for (let value = 0; value <= top; value += step) {
    const at = y(value);
    yield make('path', {
      class: 'wb-grid',
      d: `M${LEFT} ${fix(at)}H${WIDTH - RIGHT}`
    });
    yield label(LEFT - 6, at + 4, number(value, 3), 'end');
  }
  for (let power = 0; power <= 12; power++) {
    const size = 10 ** power;
    if (size >= 0.99 * first && size <= 1.01 * last) {
      yield make('path', {
        class: 'wb-grid',
        d: `M${fix(x(size))} ${TOP}V${HEIGHT - BOTTOM}`
      });
      yield label(x(size), HEIGHT - BOTTOM + 16, sizeText(size), 'middle');
    }
  }
  const middle = (HEIGHT - BOTTOM + TOP) / 2;
  const name = label(11, middle, 'busbw, Gbit/s', 'middle');
  name.setAttribute('transform', `rotate(-90 11 ${middle})`);
  yield name;
  yield label(
    (WIDTH + LEFT) / 2,
    HEIGHT - 6,
    'size of the allreduce',
    'middle'
  );
}

/** A round step that is not smaller than another. */
function stepOf(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least || 1));
  return power * ([1, 2, 5].find(one => one * power >= least) ?? 10);
}

/** A mark beside the colour, so that no colour is needed to tell the ways apart. */
function mark(kind: number, x: number, y: number): Element {
  if (kind === 0) {
    return make('circle', { cx: fix(x), cy: fix(y), r: '3.2' });
  }
  return make('path', {
    d:
      kind === 1
        ? `M${fix(x - 3)} ${fix(y - 3)}h6v6h-6z`
        : `M${fix(x)} ${fix(y - 4)}l4 7h-8z`
  });
}

function entry(kind: string, text: string, way = -1): HTMLElement {
  const line = make('svg', {
    viewBox: '0 0 26 10',
    class: 'wb-key',
    'aria-hidden': 'true'
  });
  const group = make('g', { class: kind });
  group.append(make('path', { d: 'M0 5h26', fill: 'none' }));
  if (way >= 0) {
    group.append(mark(way, 13, 5));
  }
  line.append(group);
  return element('li', {}, line, text);
}

function label(x: number, y: number, text: string, anchor: string): Element {
  const made = make('text', { x: fix(x), y: fix(y), 'text-anchor': anchor });
  made.textContent = text;
  return made;
}

function make(tag: string, attributes: { [name: string]: string }): Element {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, value);
  }
  return made;
}

function fix(value: number): string {
  return value.toFixed(1);
}
