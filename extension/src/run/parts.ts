/**
 * Name the parts of a step, as `workbench/core/performance/step_sampling.py` does, in the order in which they are
 * shown everywhere.
 */
import type { StepPart } from '../protocol';
import type { ITrans } from './trans';

/** What a person reads for each part. */
export function partNames(trans: ITrans): Map<StepPart, string> {
  return new Map([
    ['compute', trans.__('compute')],
    ['communication', trans.__('communication')],
    ['waiting', trans.__('waiting')],
    ['moving', trans.__('moving bytes')],
    ['point-to-point', trans.__('point-to-point')],
    ['data', trans.__('data')],
    ['other', trans.__('other')]
  ]);
}
