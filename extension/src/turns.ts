/**
 * Have the pages that show a notebook save it one after another; the server says whose turn it is.
 */
import { UUID } from '@lumino/coreutils';

import * as request from './request';

/** What of `request.ts` is needed to take turns. */
export interface ITurnsApi {
  takeTurn(holder: string, path: string): Promise<boolean>;
  endTurn(holder: string): Promise<void>;
}

/** Milliseconds between two attempts to have one's turn. */
const EVERY = 500;
/** Milliseconds after which a page gives up; the server's turns are shorter. */
const PATIENCE = 60_000;

/**
 * Do `act` when it is this page's turn at the notebook, or not at all if others keep it.
 *
 * Where the server cannot say whose turn it is, it is everybody's.
 */
export async function inTurn(
  path: string,
  act: () => Promise<void>,
  api: ITurnsApi = request
): Promise<void> {
  const holder = UUID.uuid4();
  const deadline = Date.now() + PATIENCE;
  while (!(await isGranted(api, holder, path))) {
    if (Date.now() >= deadline) {
      return;
    }
    await new Promise(resolve => setTimeout(resolve, EVERY));
  }
  try {
    await act();
  } finally {
    await api.endTurn(holder).catch(() => undefined);
  }
}

async function isGranted(
  api: ITurnsApi,
  holder: string,
  path: string
): Promise<boolean> {
  try {
    return await api.takeTurn(holder, path);
  } catch {
    return true;
  }
}
