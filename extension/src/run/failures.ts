/**
 * List the attempts of a run that failed and were tried again.
 */
import type { IRun } from '../protocol';
import { element } from './dom';
import { said } from './phrases';
import type { ITrans } from './trans';

export class FailureList {
  constructor(private readonly trans: ITrans) {}

  readonly node = element('ul', { class: 'wb-failures', hidden: true });

  show({ failures = [] }: IRun): void {
    this.node.hidden = !failures.length;
    if (failures.length === this.node.childElementCount) {
      return; // those that have failed stay as they are
    }
    const lines = failures.map(one => said(one, this.trans));
    this.node.replaceChildren(...lines.map(text => element('li', { text })));
  }
}
