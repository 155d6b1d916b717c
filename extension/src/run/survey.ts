/**
 * Show what was measured between nodes: a heat map of the links, allreduces, and what stands out.
 */
import type { ISurvey } from '../protocol';
import { element } from './dom';
import { heatMap } from './heatmap';
import { count, duration, fixed, millisecondPlaces } from './numbers';
import { gigabits, microseconds, rateText, sizeText } from './sizes';
import { surveyChart } from './surveychart';

/** A cell of a table: names are aligned left, amounts right. */
type Row = [name: string, ...amounts: string[]];

export class SurveyView {
  constructor() {
    this.node.setAttribute('aria-label', 'Bandwidth');
    this.node.hidden = true;
  }

  readonly node = element('div', {
    class: 'wb-survey wb-section',
    role: 'group'
  });

  show(survey: ISurvey | null): void {
    this.node.hidden = !survey;
    if (survey && survey !== this._shown) {
      this._shown = survey;
      this.node.replaceChildren(
        element('p', { class: 'wb-note', text: this._heading(survey) }),
        ...survey.remarks.map(text =>
          element('p', { class: 'wb-verdict', text })
        ),
        element('div', { class: 'wb-figures' }, ...this._figures(survey)),
        ...this._tables(survey)
      );
    }
  }

  private _heading({ nodes, ranks, time, seconds }: ISurvey): string {
    const n = nodes.length;
    const when = new Date(1000 * time).toLocaleString();
    return `${count(n, 'node')} with ${count(ranks, 'rank')}, measured ${when} in ${duration(seconds)}`;
  }

  private _figures(survey: ISurvey): HTMLElement[] {
    return [
      ...(survey.slowest && isMapped(survey) ? [heatMap(survey)] : []),
      ...(survey.exchanges.length ? [surveyChart(survey)] : [])
    ];
  }

  private _tables(survey: ISurvey): HTMLElement[] {
    const { nodes, latencies, links, exchanges, rates } = survey;
    const made: [string, string[], Row[], boolean?][] = [
      [
        'Allreduce',
        ['algorithm', 'size', 'ms', 'algbw, Gbit/s', 'busbw, Gbit/s'],
        exchanges.map(one => [
          [one.way, one.algorithm].filter(Boolean).join(': '),
          sizeText(one.nbytes),
          fixed(1000 * one.seconds, millisecondPlaces(one.seconds)),
          gigabits(one.algbw),
          gigabits(one.busbw)
        ])
      ],
      [
        'Links',
        ['from → to', 'Gbit/s', 'µs'],
        latencies.map(([from, to, seconds]) => [
          `${nodes[from]} → ${nodes[to]}`,
          gigabits(links[from][to] ?? NaN),
          microseconds(seconds)
        ]),
        !isMapped(survey)
      ],
      [
        'On each node',
        ['node', 'what', 'rate'],
        rates.map(({ node, what, bandwidth, latency }) => [
          node,
          what,
          rateText(bandwidth, latency)
        ])
      ]
    ];
    return made
      .filter(([, , rows]) => rows.length)
      .map(([title, titles, rows, isOpen]) =>
        folded(title, titles, rows, isOpen)
      );
  }

  private _shown: ISurvey | null = null;
}

/** Whether there are so many links that a map of them shows more than their table. */
function isMapped({ nodes }: ISurvey): boolean {
  return nodes.length > 2;
}

/** A table that can be opened to see its figures. */
function folded(
  title: string,
  titles: string[],
  rows: Row[],
  isOpen = false
): HTMLElement {
  const head = titles.map(text => element('th', { scope: 'col', text }));
  const body = rows.map(([name, ...amounts]) =>
    element(
      'tr',
      {},
      element('th', { scope: 'row', text: name }),
      ...amounts.map(text => element('td', { text }))
    )
  );
  return element(
    'details',
    { open: isOpen },
    element('summary', { text: title }),
    element(
      'table',
      { class: 'wb-values', 'aria-label': title },
      element('thead', {}, element('tr', {}, ...head)),
      element('tbody', {}, ...body)
    )
  );
}
