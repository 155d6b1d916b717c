/**
 * Name the parts of a step.
 */
import { STEP_PARTS, type StepPart } from '../protocol';

/** What a person reads for each part, in the order in which they are shown everywhere. */
export function partNames(): Map<StepPart, string> {
  return new Map(STEP_PARTS);
}
