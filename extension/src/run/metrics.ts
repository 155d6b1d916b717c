/**
 * Sort the names of reported values into charts, as `workbench/core/metrics.py` does.
 */

/** More charts than this are not drawn. */
export const MOST_GROUPS = 6;

const MEASURED = /^(step|exchange|gauge)\//;
const CLOCKS = new Set([
  ...['elapsed_time', 'epoch', 'iteration', 'time', 'step', 'timestamp']
]);
const VALIDATION = new Set([
  ...['validation', 'valid', 'val', 'test', 'eval', 'evaluation', 'dev']
]);
const TRAINING = new Set(['main', 'train', 'training']);
const LOSS = /loss|nll|perplexity|cost|error|\bmse\b|\bmae\b/;
const ACCURACY =
  /acc|top.?\d|\bf1\b|precision|recall|\bauc\b|\biou\b|score|bleu/;

/** Curves of one quantity, which share axes. */
export interface IGroup {
  quantity: string;
  /** Training before validation. */
  names: string[];
}

/** The charts to draw: losses first, then accuracies, then the rest by name. */
export function groupNames(names: Iterable<string>): IGroup[] {
  const groups = new Map<string, string[]>();
  for (const name of [...new Set(names)].sort(byCode)) {
    if (!isClock(name) && !MEASURED.test(name)) {
      const quantity = quantityOf(name);
      groups.set(quantity, [...(groups.get(quantity) ?? []), name]);
    }
  }
  return [...groups]
    .sort(([a], [b]) => family(a) - family(b) || byCode(a, b))
    .map(([quantity, members]) => ({
      quantity,
      names: [
        ...members.filter(name => !isValidation(name)),
        ...members.filter(isValidation)
      ]
    }));
}

/** Whether `name` only counts time or steps, and so makes no curve. */
export function isClock(name: string): boolean {
  return CLOCKS.has(lastPart(name));
}

/** Whether `name` was measured on data that is not trained on. */
export function isValidation(name: string): boolean {
  return (
    parts(name).some(part => VALIDATION.has(part)) ||
    VALIDATION.has(prefix(name))
  );
}

/** What `name` measures: `loss` for `validation/main/loss` and `val_loss`. */
export function quantityOf(name: string): string {
  const head = prefix(name);
  return VALIDATION.has(head) || TRAINING.has(head)
    ? lastPart(name).slice(head.length + 1)
    : lastPart(name);
}

function family(quantity: string): number {
  return LOSS.test(quantity) ? 0 : ACCURACY.test(quantity) ? 1 : 2;
}

function parts(name: string): string[] {
  return name
    .toLowerCase()
    .replace(/^\/+|\/+$/g, '')
    .split('/');
}

function lastPart(name: string): string {
  return parts(name).pop() ?? '';
}

function prefix(name: string): string {
  const last = lastPart(name);
  const end = last.indexOf('_');
  return end < 0 ? '' : last.slice(0, end);
}

function byCode(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
