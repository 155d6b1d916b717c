/** What was measured between nodes is said, shown, and listed. */
import { RunModel } from '../model';
import { SurveyView } from '../survey';
import { RunView } from '../view';
import { anEndedRun, aSurvey } from './samples';

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
  expect(texts('.wb-note')).toEqual(['2 nodes with 4 ranks, measured today']);
  expect(texts('.wb-verdict')).toEqual([
    'beta lost half its bandwidth since Tuesday.'
  ]);
});

it('shows the picture, and says what it shows', () => {
  view.show(aSurvey());

  const [image] = all('img');
  expect(image.getAttribute('src')).toBe('data:image/png;base64,iVBORw0K');
  expect(image.getAttribute('alt')).toBe('Links and allreduces');
  expect(texts('figcaption')).toEqual(['links from 0.7 to 1.4 Gbit/s']);
});

it('has no picture of what cannot be drawn', () => {
  view.show(aSurvey({ picture: '' }));

  expect(all('img')).toHaveLength(0);
});

it('has all figures in tables that can be opened', () => {
  view.show(aSurvey());

  expect(texts('summary')).toEqual(['Links', 'On each node']);
  expect(all('details').map(one => one.hasAttribute('open'))).toEqual([
    true,
    false
  ]);
  expect(texts('details:last-child td')).toEqual(['disk write', '310 MB/s']);
});

it('takes the place of the curves in the view of a run', () => {
  const model = new RunModel('260101-120000-abcd');
  model.setConnection('ended');
  const run = anEndedRun({ kind: 'measurement' });
  const shown = new RunView({ model, actions: {} });
  model.applyMessage({ type: 'run', run });
  model.setSurvey(aSurvey());

  expect(shown.node.querySelector('.wb-survey img')).not.toBeNull();
  expect(shown.node.classList).not.toContain('wb-plain');
  shown.dispose();
});
