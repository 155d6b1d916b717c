/**
 * Name the parts of a step in the page's language.
 */
import { STEP_PARTS, type StepPart } from '../protocol';
import type { ITrans } from './trans';

/** What a person reads for each part, in the order in which they are shown everywhere. */
export function partNames(trans: ITrans): Map<StepPart, string> {
  return new Map(STEP_PARTS.map(([part, text]) => [part, trans.__(text)]));
}
