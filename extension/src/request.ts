/**
 * REST requests to the server extension, and the URL of a run's WebSocket.
 */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import type { Ask, IAsking } from './api';
import {
  type IAbout,
  decodeFrame,
  type ICurvesQuery,
  type IFollowQuery,
  type IFrame,
  type IListedRun,
  type INotebookRequest,
  type IRefusal,
  type IRun,
  type IRuns,
  type IRunsQuery,
  type ISurvey,
  type ITurn
} from './protocol';

const API = 'workbench/api';

/** A MIME bundle. */
export type Bundle = { [type: string]: unknown };

/** The server refused, or did not answer. */
export class RequestError extends Error {
  /**
   * @param status - of HTTP; 0 when there was no answer
   * @param isOurs - whether our part of the server said so, and not one that lacks it
   * @param price - dollars an hour, where only a yes to them is missing
   */
  constructor(
    readonly status: number,
    message: string,
    readonly isOurs: boolean,
    readonly price?: number
  ) {
    super(message);
  }
}

/** What `settings` are taken from when none are given. */
type Settings = ServerConnection.ISettings;

/** Requests to the Jupyter server. */
export function rest(settings?: Settings): Ask {
  return (method, path, asking = {}) =>
    json(method, path, { ...asking, settings });
}

/** The newest runs first, of one cluster or of all. */
export async function getRuns(
  options: IRunsQuery = {},
  settings?: Settings
): Promise<IListedRun[]> {
  const answer = await json<IRuns>('GET', ['runs'], {
    query: { ...options },
    settings
  });
  return answer.runs;
}

export function getRun(id: string, settings?: Settings): Promise<IRun> {
  return json('GET', ['runs', id], { settings });
}

export function stopRun(id: string, settings?: Settings): Promise<IRun> {
  return json('POST', ['runs', id, 'stop'], { settings });
}

/** Have a run that has ended continue from its newest snapshot. */
export function resumeRun(id: string, settings?: Settings): Promise<IRun> {
  return json('POST', ['runs', id, 'resume'], { settings });
}

/** What a run measured of its cluster. */
export function getSurvey(id: string, settings?: Settings): Promise<ISurvey> {
  return json('GET', ['runs', id, 'survey'], { settings });
}

/** What is to be kept in the notebook of a run that has ended. */
export function getBundle(id: string, settings?: Settings): Promise<Bundle> {
  return json('GET', ['runs', id, 'bundle'], { settings });
}

/** The curves between two iterations in finer buckets. */
export async function getCurves(
  id: string,
  range: ICurvesQuery,
  settings?: Settings
): Promise<IFrame> {
  const path = ['runs', id, 'curves'];
  const response = await ask('GET', path, { query: { ...range }, settings });
  return decodeFrame(await response.arrayBuffer());
}

/** What a run is made of, with its source. */
export async function about(id: string, settings?: Settings): Promise<IAbout> {
  return json('GET', ['runs', id, 'about'], { settings });
}

/**
 * Ask for a turn at saving a notebook, and return whether it is one's own.
 *
 * @param holder - tells this turn from all others
 */
export async function takeTurn(
  holder: string,
  path: string,
  settings?: Settings
): Promise<boolean> {
  const body: INotebookRequest = { path };
  const asking = { body, settings };
  const answer = await json<ITurn>('PUT', ['turns', holder], asking);
  return answer.granted;
}

/** Have the next page have its turn. */
export async function endTurn(
  holder: string,
  settings?: Settings
): Promise<void> {
  await ask('DELETE', ['turns', holder], { settings });
}

/** The WebSocket that follows a run from what is known of it already. */
export function followUrl(
  id: string,
  known: IFollowQuery,
  settings: Settings = ServerConnection.makeSettings()
): string {
  const query: Query = { ...known };
  if (settings.appendToken && settings.token) {
    query.token = settings.token;
  }
  return located(settings.wsUrl, ['runs', id, 'follow'], query);
}

type Query = NonNullable<IAsking['query']>;
type WithSettings = IAsking & { settings?: Settings };

async function json<T>(
  method: string,
  path: string[],
  asking: WithSettings
): Promise<T> {
  const response = await ask(method, path, asking);
  return (await response.json()) as T;
}

async function ask(
  method: string,
  path: string[],
  asking: WithSettings
): Promise<Response> {
  const settings = asking.settings ?? ServerConnection.makeSettings();
  const url = located(settings.baseUrl, path, asking.query);
  const body = asking.body === undefined ? null : JSON.stringify(asking.body);
  let response: Response;
  try {
    const init = { method, body };
    response = await ServerConnection.makeRequest(url, init, settings);
  } catch (error) {
    throw new RequestError(0, String((error as Error).message), false);
  }
  if (!response.ok) {
    throw await refusal(response);
  }
  return response;
}

async function refusal(response: Response): Promise<RequestError> {
  let said: Partial<IRefusal> = {};
  try {
    said = (await response.json()) ?? {};
  } catch {
    // A server without our part, or a proxy, answers in HTML.
  }
  const message =
    said.message || `${response.status} ${response.statusText}`.trim();
  return new RequestError(
    response.status,
    message,
    said.reason === 'workbench',
    said.price ?? undefined
  );
}

function located(base: string, path: string[], query: Query = {}): string {
  const url = URLExt.join(base, API, ...path.map(encodeURIComponent));
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null) {
      parameters.set(name, String(value));
    }
  }
  const text = parameters.toString();
  return text ? `${url}?${text}` : url;
}
