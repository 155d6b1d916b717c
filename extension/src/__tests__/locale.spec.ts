import { TranslationManager } from '@jupyterlab/translation';

import cases from '../../../tests/view/runs.json';
import catalogue from '../../../workbench/locale/ja_JP/LC_MESSAGES/workbench.json';
import { RunModel } from '../run/model';
import { marksOf, stateLine, stateWord } from '../run/phrases';
import { statusText } from '../words';
import { aCluster, aRun } from './samples';

/** The bundle that JupyterLab makes of our catalogue. */
async function japanese() {
  const language = { data: { workbench: catalogue }, message: '' };
  const connector = { fetch: async () => language };
  const manager = new TranslationManager(
    ...(['', '', undefined, connector] as unknown as [string])
  );
  await manager.fetch('ja_JP');
  return manager.load('workbench');
}

it('is taken in by JupyterLab, with one form for every number', async () => {
  const trans = await japanese();

  expect(trans.__('Training Clusters')).toBe('学習クラスタ');
  expect(trans._n('%1 rank', '%1 ranks', 1)).toBe('1 ランク');
  expect(trans._n('%1 rank', '%1 ranks', 4)).toBe('4 ランク');
  expect(trans._p('settings', 'Smoothing')).toBe('平滑化');
});

it('leaves names of runs and their percent signs alone', async () => {
  const cluster = aCluster({ ranks_asked: 4, runs: [aRun({ name: '50%2' })] });

  expect(statusText([cluster], await japanese())).toBe(
    '2 / 4 ランク · 50%2 42 %'
  );
});

it('shows a cell magic as it is typed', async () => {
  const trans = await japanese();
  const said = trans.__(
    'No runs yet. Start one with a cell that begins with %1.',
    '%%dist_train'
  );

  expect(said).toContain('%%dist_train で');
});

it('says in Japanese what the server sends of a run', async () => {
  const trans = await japanese();
  const [running] = cases;
  const run = aRun(running.sent as object);

  expect(stateWord(run, trans)).toBe('実行中');
  expect(stateLine(run, trans)).toBe(
    'イテレーション 420 / 1,000 · 4 ランク · 12.3 it/s · 残り 47 秒'
  );
});

it('says in Japanese where a run continued', async () => {
  const trans = await japanese();
  const continued = cases.find(one => one.marks.length)!;
  const model = new RunModel('id');
  model.applyMessage({ type: 'run', run: aRun(continued.sent as object) });

  expect(marksOf(model, trans).map(mark => mark.text)).toEqual([
    '2 → 3 ランク、800 ms',
    'ランク喪失、22 ステップをやり直し、4.1 秒',
    '再開、3 → 4 ランク'
  ]);
});
