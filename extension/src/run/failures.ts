/**
 * List the attempts of a run that failed and were tried again.
 */
import type { IRun } from '../protocol';
import { element } from './dom';

export class FailureList {
  readonly node = element('ul', { class: 'wb-failures', hidden: true });

  show({ failures = [] }: IRun): void {
    this.node.hidden = !failures.length;
    if (failures.length === this.node.childElementCount) {
      return; // those that have failed stay as they are
    }
    this.node.replaceChildren(...failures.map(text => element('li', { text })));
  }
}
