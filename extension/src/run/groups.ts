/**
 * Put curves of one quantity together, as the server says what each of them measures.
 */
import { FAMILIES, type Family } from '../protocol';
import type { Series } from './series';

/** More charts than this are not drawn. */
export const MOST_GROUPS = 6;

/** Curves of one quantity, which share axes. */
export interface IGroup {
  quantity: string;
  family: Family;
  /** Training before validation. */
  names: string[];
}

type Measured = Pick<Series, 'name' | 'quantity' | 'family' | 'isValidation'>;

/** The charts to draw: losses first, then shares, then the rest by name. */
export function groupsOf(curves: Iterable<Measured>): IGroup[] {
  const groups = new Map<string, IGroup>();
  const ordered = [...curves].sort(
    (one, other) =>
      FAMILIES.indexOf(one.family) - FAMILIES.indexOf(other.family) ||
      byCode(one.quantity, other.quantity) ||
      Number(one.isValidation) - Number(other.isValidation) ||
      byCode(one.name, other.name)
  );
  for (const { name, quantity, family } of ordered) {
    const group = groups.get(quantity) ?? { quantity, family, names: [] };
    groups.set(quantity, group);
    if (!group.names.includes(name)) {
      group.names.push(name);
    }
  }
  return [...groups.values()];
}

function byCode(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
