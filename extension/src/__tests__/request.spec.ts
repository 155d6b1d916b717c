/** Requests go below the server's base URL, and refusals are told apart. */
import { ServerConnection } from '@jupyterlab/services';

import { clusterApi } from '../api';
import {
  endTurn,
  followUrl,
  getCurves,
  getRuns,
  RequestError,
  rest,
  stopRun,
  takeTurn
} from '../request';
import { aFrame, buckets, encoded } from '../run/__tests__/samples';

const BASE = 'https://hub.example/user/ada/';

function settings(
  answer: () => Response | Promise<Response>,
  asked: Request[] = []
): ServerConnection.ISettings {
  return ServerConnection.makeSettings({
    ...{ baseUrl: BASE, wsUrl: 'wss://hub.example/user/ada/' },
    token: 'secret',
    fetch: async (request: RequestInfo | URL) => {
      asked.push(request as Request);
      return answer();
    }
  });
}

const ok = (body: unknown) => () => new Response(JSON.stringify(body));

test('a hub prefix is kept', async () => {
  const asked: Request[] = [];
  const runs = { runs: [] };
  await getRuns({ limit: 5 }, settings(ok(runs), asked));

  expect(asked[0].url).toMatch(`${BASE}workbench/api/runs?limit=5`);
});

test('a name cannot leave its place', async () => {
  const asked: Request[] = [];
  await clusterApi(rest(settings(ok({}), asked))).resize('a/../b', {
    ranks: 3
  });

  expect(asked[0].url).toMatch(`${BASE}workbench/api/clusters/a%2F..%2Fb`);
  expect(asked[0].method).toBe('PATCH');
  expect(await asked[0].json()).toEqual({ ranks: 3 });
});

test('points come as numbers', async () => {
  const bytes = encoded(aFrame([buckets([4, 5])]));

  const frame = await getCurves(
    'a',
    { first: 0, last: 9, buckets: 2 },
    settings(() => new Response(bytes))
  );

  expect([...frame.series[0].x]).toEqual([4, 5]);
});

test('a turn at a notebook is asked for and given back', async () => {
  const asked: Request[] = [];
  const granted = settings(ok({ granted: true }), asked);

  expect(await takeTurn('a-page', 'folder/a.ipynb', granted)).toBe(true);
  await endTurn(
    'a-page',
    settings(() => new Response(null, { status: 204 }), asked)
  );

  expect(asked.map(({ method }) => method)).toEqual(['PUT', 'DELETE']);
  expect(asked[0].url).toMatch(`${BASE}workbench/api/turns/a-page`);
  expect(await asked[0].json()).toEqual({ path: 'folder/a.ipynb' });
});

test('our own refusal bears its sentence', async () => {
  const body = { message: 'There is no such run.', reason: 'workbench' };
  const refused = () => new Response(JSON.stringify(body), { status: 404 });

  const error = await stopRun('a', settings(refused)).catch(e => e);

  expect(error).toBeInstanceOf(RequestError);
  expect(error).toMatchObject({
    ...{ status: 404, isOurs: true },
    message: 'There is no such run.'
  });
});

test('a server without our part is known by its answer', async () => {
  const refused = () => new Response('<h1>404</h1>', { status: 404 });

  const error = await clusterApi(rest(settings(refused)))
    .clusters()
    .catch(e => e);

  expect(error).toMatchObject({ status: 404, isOurs: false });
});

test('a server that does not answer has no status', async () => {
  const fails = () => Promise.reject(new TypeError('Failed to fetch'));

  const error = await clusterApi(rest(settings(fails)))
    .clusters()
    .catch(e => e);

  expect(error).toMatchObject({ status: 0, isOurs: false });
});

test('a run is followed where the hub has the server, with the token', () => {
  const url = followUrl('a b', { feed: 'f', version: 3 }, settings(ok({})));

  expect(url).toBe(
    'wss://hub.example/user/ada/workbench/api/runs/a%20b/follow?feed=f&version=3&token=secret'
  );
});
