/**
 * Draw the links between nodes as a table whose cells are coloured by their bandwidth.
 */
import type { ISurvey } from '../protocol';
import { element } from './dom';
import { gigabits, microseconds } from './sizes';

/** The bandwidths at the two ends of the colours. */
type Scale = [least: number, most: number];

/** Nodes whose figures fit into the cells. */
const MOST_WRITTEN = 16;

// Cividis, which is the same to those who see fewer colours; light where much goes through.
const COLOURS = [
  [0, 34, 78],
  [67, 78, 108],
  [125, 124, 120],
  [188, 175, 111],
  [254, 232, 56]
];

/** Links that differ by less than this look nearly the same: that is how measurements differ. */
const LEAST_SPREAD = 0.25;

/** The links from each node (row) to each (column), the slowest one marked. */
export function heatMap(survey: ISurvey): HTMLElement {
  const { nodes, links } = survey;
  const found = links.flat().flatMap(one => one ?? []);
  const most = Math.max(...found);
  const scale: Scale = [Math.min(...found, (1 - LEAST_SPREAD) * most), most];
  const title = 'Gbit/s from each node (row) to each (column)';
  const heads = nodes.map(text => element('th', { scope: 'col', text }));
  const rows = nodes.map((text, from) =>
    element(
      'tr',
      {},
      element('th', { scope: 'row', text }),
      ...nodes.map((_, to) => cell(survey, from, to, scale))
    )
  );
  const table = element(
    'table',
    { class: 'wb-heat' },
    element('caption', { text: title }),
    element('thead', {}, element('tr', {}, element('td'), ...heads)),
    element('tbody', {}, ...rows)
  );
  return element(
    'div',
    { class: 'wb-heatmap', role: 'group', 'aria-label': title, tabindex: '0' },
    table,
    scaleBar(scale)
  );
}

function cell(
  survey: ISurvey,
  from: number,
  to: number,
  [least, most]: Scale
): HTMLElement {
  const { nodes, links, latencies, slowest } = survey;
  const bandwidth = links[from][to];
  if (bandwidth === null) {
    return element('td', {}, element('span', { 'aria-hidden': 'true' }));
  }
  const share = (bandwidth - least) / (most - least || 1);
  const found = latencies.find(([a, b]) => a === from && b === to);
  const made = element('td', {
    title: `${nodes[from]} → ${nodes[to]}: ${gigabits(bandwidth)} Gbit/s, ${microseconds(found?.[2] ?? NaN)} µs`
  });
  made.style.background = colour(share);
  made.style.color = share > 0.55 ? '#000' : '#fff';
  const isHidden = nodes.length > MOST_WRITTEN;
  const text = gigabits(bandwidth);
  made.append(element('span', { class: isHidden ? 'wb-hidden' : '', text }));
  if (slowest && slowest[0] === from && slowest[1] === to) {
    made.classList.add('wb-slowest-link');
    made.append(
      element('span', { 'aria-hidden': 'true', text: ' ▲' }),
      element('span', { class: 'wb-hidden', text: 'slowest link' })
    );
  }
  return made;
}

/** Which colour is how much. */
function scaleBar([least, most]: Scale): HTMLElement {
  const bar = element('span', { class: 'wb-heatscale-bar' });
  const stops = COLOURS.map(rgb => `rgb(${rgb.join(', ')})`);
  bar.style.background = `linear-gradient(to right, ${stops.join(', ')})`;
  return element(
    'div',
    { class: 'wb-heatscale', 'aria-hidden': 'true' },
    gigabits(least),
    bar,
    `${gigabits(most)} Gbit/s`
  );
}

/**
 * The colour of a bandwidth.
 *
 * @param share - from 0, the least of the scale, to 1, its greatest
 */
export function colour(share: number): string {
  const place = Math.min(1, Math.max(0, share)) * (COLOURS.length - 1);
  const at = Math.min(COLOURS.length - 2, Math.floor(place));
  const mixed = COLOURS[at].map((low, i) =>
    Math.round(low + (place - at) * (COLOURS[at + 1][i] - low))
  );
  return `rgb(${mixed.join(', ')})`;
}
