/**
 * The delay before the next attempt.
 */

const FIRST = 250;

/**
 * Milliseconds to wait after so many failures; uneven, so that pages do not come back all at once.
 *
 * @param most - the longest wait
 */
export function retryDelay(failures: number, most = 5_000): number {
  const delay = Math.min(most, FIRST * 2 ** Math.min(failures, 16));
  return delay * (0.5 + Math.random() / 2);
}
