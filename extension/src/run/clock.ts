/**
 * Place the curves of a run on the time since it started, instead of on its iterations.
 */
import type { RunModel } from './model';
import type { Series } from './series';

/** When iterations of a run were done; between two that are known, they take the same time each. */
export class Clock {
  /** @param pairs - iteration and seconds since the run started; both increase */
  constructor(private readonly pairs: readonly (readonly [number, number])[]) {}

  /** Seconds from the start of the run to the end of an iteration. */
  at(iteration: number): number {
    const { pairs } = this;
    let after = 1;
    while (after < pairs.length - 1 && pairs[after][0] < iteration) {
      after += 1;
    }
    const [[first, begun], [last, ended]] = [pairs[after - 1], pairs[after]];
    const share = (iteration - first) / (last - first);
    return Math.max(0, begun + share * (ended - begun));
  }
}

/** The clock of a run; null while too little is known. */
export function clockOf({ run }: RunModel): Clock | null {
  const pairs = run?.clock ?? [];
  return pairs.length > 1 ? new Clock(pairs) : null;
}

/** The same curve with seconds in place of iterations. */
export function inTime(series: Series, clock: Clock): Series {
  let [version, x] = [-1, new Float64Array(0)];
  const seconds = () => {
    if (version !== series.version) {
      version = series.version;
      x = series.x.map(iteration => clock.at(iteration));
    }
    return x;
  };
  return Object.create(series, {
    x: { get: seconds },
    span: {
      get: () => {
        const all = seconds();
        return all.length ? [all[0], all[all.length - 1]] : null;
      }
    }
  }) as Series;
}
