/**
 * Schedule drawing: in a frame of the browser, a few times a second, and only while it is visible.
 */

/** Milliseconds between two drawings. */
const EVERY = 100;

export class Pacer {
  /**
   * @param node - what has to be in sight
   */
  constructor(
    node: HTMLElement,
    private readonly draw: () => void
  ) {
    document.addEventListener('visibilitychange', this._onVisibility);
    if (typeof IntersectionObserver !== 'undefined') {
      this._isInSight = false;
      this._observer = new IntersectionObserver(
        entries => {
          this._isInSight = entries[entries.length - 1].isIntersecting;
          this._schedule();
        },
        { rootMargin: '200px' }
      );
      this._observer.observe(node);
    }
  }

  /** Have it drawn once it is due. */
  request(): void {
    this._isDue = true;
    this._schedule();
  }

  dispose(): void {
    this._isDue = false;
    this._observer?.disconnect();
    document.removeEventListener('visibilitychange', this._onVisibility);
    clearTimeout(this._timer);
    cancelAnimationFrame(this._frame);
  }

  private _schedule(): void {
    const isSeen = this._isInSight && !document.hidden;
    if (!this._isDue || !isSeen || this._isWaiting) {
      return;
    }
    this._isWaiting = true;
    const wait = this._step() - performance.now();
    const next = () => (this._frame = requestAnimationFrame(this._onFrame));
    if (wait > 0) {
      this._timer = setTimeout(next, wait);
    } else {
      next();
    }
  }

  private readonly _onFrame = (): void => {
    this._isWaiting = false;
    if (this._isDue) {
      this._isDue = false;
      this.draw();
    }
  };

  /**
   * Schedule the next drawing, and return when it is due. A beat is kept, so that neither waiting
   * for a frame nor a request that comes a little late makes them rarer; one that is missed is not
   * made up for.
   */
  private _step(): number {
    const [now, due] = [performance.now(), this._last + EVERY];
    this._last = now - due > EVERY / 2 ? now : due;
    return this._last;
  }

  private readonly _onVisibility = (): void => this._schedule();

  private readonly _observer: IntersectionObserver | null = null;
  private _isInSight = true;
  private _isDue = false;
  private _isWaiting = false;
  /** When the last drawing was due. */
  private _last = -Infinity;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _frame = 0;
}
