/**
 * A button of a run's head that asks for something once, and shows the answer.
 */
import { element, setAttribute, setText } from './dom';

export interface IAction {
  /** The class of its node. */
  look: string;
  label: string;
  /** Its label while it asks, and until what it asked for is done. */
  busy: string;
  /** The sentence for an error. */
  refusal: (message: string) => string;
  /** Asks, and may return a message; null where the view cannot ask. */
  ask: (() => Promise<string | void>) | null;
}

export class ActionButton {
  /**
   * @param say - shows a sentence; an empty one takes it away
   */
  constructor(
    private readonly action: IAction,
    private readonly say: (sentence: string) => void
  ) {
    this.node = element('button', { type: 'button', class: action.look });
    this.node.hidden = true;
    this.node.addEventListener('click', () => void this._onClick());
  }

  readonly node: HTMLButtonElement;

  /**
   * @param isOffered - whether the run can be asked for it
   * @param isDoing - whether it does it already
   */
  show(isOffered: boolean, isDoing: boolean, title: string): void {
    if (!this.action.ask) {
      return;
    }
    this._isDoing = isDoing;
    this.node.hidden = !isOffered;
    this.node.disabled = !isOffered;
    setAttribute(this.node, 'title', title);
    this._showLabel();
  }

  private _showLabel(): void {
    const { label, busy } = this.action;
    // It keeps the focus while it is busy, so it is not disabled for good yet.
    const isBusy = this._isAsking || this._isDoing;
    setAttribute(this.node, 'aria-disabled', String(isBusy));
    setText(this.node, isBusy ? busy : label);
  }

  private async _onClick(): Promise<void> {
    if (this._isAsking || this._isDoing || this.node.disabled) {
      return;
    }
    this._isAsking = true;
    this.say('');
    this._showLabel();
    try {
      this.say((await this.action.ask?.()) || '');
    } catch (error) {
      this.say(this.action.refusal((error as Error).message));
    }
    this._isAsking = false;
    this._showLabel();
  }

  private _isAsking = false;
  private _isDoing = false;
}
