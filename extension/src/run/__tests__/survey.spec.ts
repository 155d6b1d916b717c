/** What was measured between nodes is drawn, and said to those who do not see it. */
import { colour } from '../heatmap';
import type { ISurvey } from '../../protocol';
import { RunModel } from '../model';
import { rateText, sizeText } from '../sizes';
import { SurveyView } from '../survey';
import { RunView } from '../view';
import { anEndedRun, anExchange, aSurvey } from './samples';

let view: SurveyView;

const all = (selector: string) => [
  ...view.node.querySelectorAll<HTMLElement>(selector)
];
const texts = (selector: string) =>
  all(selector).map(node => node.textContent ?? '');

beforeEach(() => {
  view = new SurveyView();
});

it('shows nothing while nothing was measured', () => {
  view.show(null);

  expect(view.node.hidden).toBe(true);
});

it('says first what stands out', () => {
  view.show(aSurvey());

  expect(view.node.hidden).toBe(false);
  expect(texts('.wb-note')[0]).toMatch(
    /^2 nodes with 4 ranks, measured .* in 1 min 2 s$/
  );
  expect(texts('.wb-verdict')).toEqual([
    'beta lost half its bandwidth since Tuesday.'
  ]);
});

/** Three nodes, of which beta is slow to alpha. */
function ofThree(slow = 0.7e9 / 8): ISurvey {
  const links = [
    [null, 1.4e9 / 8, 1.4e9 / 8],
    [slow, null, 1.4e9 / 8],
    [1.4e9 / 8, 1.4e9 / 8, null]
  ];
  return aSurvey({ nodes: ['alpha', 'beta', 'gamma'], links });
}

it('maps the links as a table, and names the slowest', () => {
  view.show(ofThree());

  expect(texts('.wb-heat thead th')).toEqual(['alpha', 'beta', 'gamma']);
  expect(texts('.wb-heat tbody td').slice(0, 6)).toEqual([
    ...['', '1.4', '1.4', '0.7 ▲slowest link', '', '1.4']
  ]);
  const slowest = all('.wb-slowest-link');
  expect(slowest.map(node => node.title)).toEqual([
    'beta → alpha: 0.7 Gbit/s, 60 µs'
  ]);
});

it('lists the two links of two nodes, of which no map is needed', () => {
  view.show(aSurvey());

  expect(all('.wb-heat')).toHaveLength(0);
  const links = all('details').find(one => one.hasAttribute('open'))!;
  expect(links.textContent).toContain('beta → alpha0.760');
});

it.each([
  ['tells links apart that differ', 0.7e9 / 8, 0],
  ['makes no more of noise than it is', 1.38e9 / 8, 0.33 / 0.35]
])('%s', (_, slow, share) => {
  view.show(ofThree(slow));

  const [slowest] = all('.wb-slowest-link');
  expect(slowest.style.background).toBe(colour(share));
});

it('can be scrolled by the keyboard', () => {
  view.show(ofThree());

  expect(all('.wb-heatmap')[0].tabIndex).toBe(0);
});

it('writes no figures into the cells of many nodes, but says them', () => {
  const nodes = Array.from({ length: 20 }, (_, i) => `node-${i}`);
  const links = nodes.map((_, a) =>
    nodes.map((_, b) => (a === b ? null : 1e8))
  );
  view.show(aSurvey({ nodes, links, slowest: [3, 4], latencies: [] }));

  expect(all('.wb-heat td .wb-hidden')).toHaveLength(20 * 19 + 1);
});

it('has no map of one node alone', () => {
  const alone = { nodes: ['alpha'], links: [[null]], latencies: [] };
  view.show(aSurvey({ ...alone, slowest: null }));

  expect(all('.wb-heat')).toHaveLength(0);
  expect(all('.wb-level')).toHaveLength(0);
  expect(texts('figcaption')[0]).toContain(
    'workbench (ring) reaches 0.67 Gbit/s at 100 MB; mpi reaches'
  );
});

it('draws a curve a way against the link and its rating', () => {
  view.show(aSurvey());

  expect(all('.wb-surveychart .wb-way')).toHaveLength(2);
  expect(all('.wb-surveychart .wb-level')).toHaveLength(2);
  expect(texts('.wb-legend li')).toEqual([
    'workbench (ring)',
    'mpi',
    'slowest link, 0.7 Gbit/s',
    'rated, 1.44 Gbit/s'
  ]);
});

it('tells of the curves those who do not see them', () => {
  view.show(aSurvey());

  const said = all('.wb-surveychart')[0].getAttribute('aria-label');
  expect(said).toContain(
    'workbench (ring) reaches 0.67 Gbit/s at 100 MB, 95 % of the slowest link'
  );
});

it('keeps every point inside of the picture', () => {
  const one = anExchange({ nbytes: 1e3, busbw: 0 });
  view.show(aSurvey({ exchanges: [one] }));

  const path = all('.wb-surveychart .wb-way path')[0].getAttribute('d')!;
  expect(path).not.toContain('NaN');
});

it('has all figures in tables that can be opened', () => {
  view.show(aSurvey());

  expect(texts('summary')).toEqual(['Allreduce', 'Links', 'On each node']);
  expect(texts('details:last-child td')).toEqual([
    ...['disk write', '310 MB/s', 'rank to rank', '4.2 GB/s, 2 µs']
  ]);
});

it('takes the place of the curves in the view of a run', () => {
  const model = new RunModel('260101-120000-abcd');
  model.setConnection('ended');
  const run = anEndedRun({ kind: 'measurement' });
  const shown = new RunView({ model, actions: {} });
  model.applyMessage({ type: 'run', run });
  model.setSurvey(aSurvey());

  expect(shown.node.querySelector('.wb-surveychart')).not.toBeNull();
  expect(shown.node.classList).not.toContain('wb-plain');
  shown.dispose();
});

test('the more, the lighter', () => {
  expect([colour(0), colour(1), colour(2), colour(-1)]).toEqual([
    'rgb(0, 34, 78)',
    'rgb(254, 232, 56)',
    'rgb(254, 232, 56)',
    'rgb(0, 34, 78)'
  ]);
});

test('bytes are said as people say them', () => {
  expect([12, 1e3, 256e6].map(sizeText)).toEqual(['12 B', '1 kB', '256 MB']);
  expect(rateText(310e6, 0)).toBe('310 MB/s');
});
