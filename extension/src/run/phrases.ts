/**
 * Put a run's state and its curves into words.
 */
import type { IRun, RunState } from '../protocol';
import type { Connection } from './model';
import { duration, integer, number } from './numbers';
import type { Series } from './series';
import type { ITrans } from './trans';

/** A run's state in a word. */
export function stateWord(run: IRun, trans: ITrans): string {
  const words: { [state in RunState]: string } = {
    queued: trans.__('queued'),
    submitted: trans.__('submitted'),
    running: trans.__('running'),
    stopping: trans.__('stopping…'),
    finished: trans.__('finished'),
    failed: trans.__('failed'),
    stopped: trans.__('stopped'),
    lost: trans.__('lost')
  };
  return run.is_stopping ? words.stopping : (words[run.state] ?? run.state);
}

/** A run's progress in one line; its state is shown beside it. */
export function stateLine(run: IRun, trans: ITrans): string {
  const isRunning = run.state === 'running' && !run.is_stopping;
  const [ending, said] = endingOf(run, trans);
  const parts = [ending, ...(ending ? [] : progress(run, trans))];
  if (run.ranks) {
    parts.push(trans._n('%2 rank', '%2 ranks', run.ranks, integer(run.ranks)));
  }
  if (isRunning && run.rate > 0) {
    parts.push(trans.__('%1 it/s', number(run.rate, 3)));
  }
  if (isRunning && run.seconds_left !== null) {
    parts.push(trans.__('%1 left', duration(run.seconds_left, trans)));
  }
  if (run.is_ended && run.started) {
    parts.push(trans.__('took %1', duration(run.seconds_taken, trans)));
  }
  parts.push(withoutStop(run.waiting || said));
  return parts.filter(part => part).join(' · ');
}

/** What is to be said of the connection; often nothing. */
export function connectionRemark(
  connection: Connection,
  problem: string,
  trans: ITrans
): string {
  switch (connection) {
    case 'lost':
      return problem
        ? trans.__('%1 Trying again…', problem)
        : trans.__('Connection lost; trying again…');
    case 'unknown':
      return trans.__(
        "This run is not in this machine's store; the picture below was saved with the notebook."
      );
    case 'no-server':
      return trans.__(
        'The server extension of workbench is not enabled here; enable it with `jupyter server extension enable workbench.server`. The view below was saved with the notebook.'
      );
    default:
      return '';
  }
}

/** That values are not finite, in a sentence; nothing when all are. */
export function nonfiniteRemark(series: Series, trans: ITrans): string {
  const { name, nonfinite, nonfiniteFirst, length } = series;
  if (!nonfinite) {
    return '';
  }
  const [first, count] = [integer(nonfiniteFirst), integer(nonfinite)];
  return length && !Number.isNaN(series.median[length - 1])
    ? trans._n(
        '%2 was not finite at iteration %3 (%4 value)',
        '%2 was not finite at times, first at iteration %3 (%4 values)',
        nonfinite,
        name,
        first,
        count
      )
    : trans._n(
        '%2 has not been finite since iteration %3 (%4 value)',
        '%2 has not been finite since iteration %3 (%4 values)',
        nonfinite,
        name,
        first,
        count
      );
}

/** What a curve shows, for those who do not see it. */
export function describe(label: string, series: Series, trans: ITrans): string {
  const { x, median } = series;
  const first = median.findIndex(value => !Number.isNaN(value));
  if (first < 0) {
    return trans.__('%1 has no finite value', label);
  }
  let last = median.length - 1;
  while (Number.isNaN(median[last])) {
    last -= 1;
  }
  const [start, end] = [number(median[first]), number(median[last])];
  if (first === last) {
    return trans.__('%1 is %2 at iteration %3', label, end, integer(x[last]));
  }
  const over = Math.round(x[last] - x[first]);
  if (median[last] < median[first]) {
    return trans._n(
      '%2 falls from %3 to %4 over %5 iteration',
      '%2 falls from %3 to %4 over %5 iterations',
      over,
      label,
      start,
      end,
      integer(over)
    );
  }
  return median[last] > median[first]
    ? trans._n(
        '%2 rises from %3 to %4 over %5 iteration',
        '%2 rises from %3 to %4 over %5 iterations',
        over,
        label,
        start,
        end,
        integer(over)
      )
    : trans._n(
        '%2 stays at %3 over %4 iteration',
        '%2 stays at %3 over %4 iterations',
        over,
        label,
        end,
        integer(over)
      );
}

/** How the run ended, if that says more than its state does, and what else is to be said. */
function endingOf(run: IRun, trans: ITrans): [ending: string, said: string] {
  const { message, failure, stopped_at: at = -1, remark = '' } = run;
  if (run.state === 'stopped') {
    if (at < 0 && !run.started && !run.iteration) {
      return [trans.__('stopped before it started'), remark];
    }
    if (at < 0 && message) {
      return ['', message]; // kept before the iteration was a field
    }
    const iteration = integer(at < 0 ? run.iteration : at);
    return [trans.__('stopped at iteration %1', iteration), remark];
  }
  if (run.state === 'failed' && run.failed_rank >= 0) {
    const { failed_rank: rank, failed_host: host } = run;
    return [
      host
        ? trans.__('failed on rank %1 (%2)', rank, host)
        : trans.__('failed on rank %1', rank),
      failure ? [failure, remark].filter(text => text).join('. ') : message
    ];
  }
  return ['', message];
}

function progress(run: IRun, trans: ITrans): string[] {
  const parts = [];
  const { iteration, iterations_total, epoch, epochs_total } = run;
  if (iterations_total) {
    const [done, total] = [integer(iteration), integer(iterations_total)];
    parts.push(
      run.kind === 'measurement'
        ? trans.__('step %1 of %2', done, total)
        : trans.__('iteration %1 of %2', done, total)
    );
  } else if (iteration) {
    parts.push(trans.__('iteration %1', integer(iteration)));
  }
  if (epochs_total) {
    parts.push(
      trans.__('epoch %1 of %2', number(epoch, 3), number(epochs_total))
    );
  } else if (epoch) {
    parts.push(trans.__('epoch %1', number(epoch, 3)));
  }
  return parts;
}

function withoutStop(sentence: string): string {
  return sentence.replace(/\.$/, '');
}
