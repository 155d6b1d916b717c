/**
 * Show who waits for whom, in a line of its own: as a warning, unless ranks are only slow.
 */
import type { IRun } from '../protocol';
import { element, setAttribute, setText } from './dom';

export class HangLine {
  constructor() {
    this.node.append(this._sentence, ' ', this._advice);
  }

  readonly node = element('p', { hidden: true });

  /** Update the line; return the sentence to announce, which is a new hang. */
  show(run: IRun): string {
    const { hang } = run;
    const text = hang?.sentence ?? '';
    this.node.hidden = !text;
    setText(this._sentence, text);
    setText(this._advice, hang?.advice ?? '');
    const isWarning = !!hang?.sure;
    setAttribute(
      this.node,
      'class',
      `wb-remark wb-hang${isWarning ? ' wb-warning' : ''}`
    );
    const isNew = isWarning && !run.is_ended && !this._isWarning;
    this._isWarning = isWarning;
    return isNew ? this._sentence.textContent! : '';
  }

  private readonly _sentence = element('span');
  private readonly _advice = element('span', { class: 'wb-advice' });
  private _isWarning = false;
}
