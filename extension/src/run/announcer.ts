/**
 * Announce changes of a run to screen readers, at a limited rate.
 */
import { element } from './dom';

const EVERY = 3_000;

/**
 * The views of a run that are in sight, in the order of the page. Only the first announces the run's news.
 */
export function viewsInSight(run: string): HTMLElement[] {
  return [...document.querySelectorAll<HTMLElement>('.wb-run')].filter(
    view => view.dataset.run === run && view.offsetParent !== null
  );
}

export class Announcer {
  readonly node = element('div', {
    class: 'wb-hidden',
    role: 'status',
    'aria-live': 'polite'
  });

  /** Say `sentence`, unless a later one takes its place before its turn. */
  say(sentence: string): void {
    this._next = sentence;
    if (this._timer === undefined) {
      this._speak();
    }
  }

  dispose(): void {
    clearTimeout(this._timer);
  }

  /** Say what came last; what was said before is not left for readers to stumble on. */
  private _speak(): void {
    this._timer = undefined;
    this.node.textContent = this._next;
    if (this._next) {
      this._next = '';
      this._timer = setTimeout(() => this._speak(), EVERY);
    }
  }

  private _next = '';
  private _timer: ReturnType<typeof setTimeout> | undefined;
}
