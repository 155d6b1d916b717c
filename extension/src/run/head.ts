/**
 * The head of a run's view: name, state, progress, and errors.
 */
import type { IRun } from '../protocol';
import { element, setAttribute, setText, withCode } from './dom';
import { asPrinted } from './lines';
import { percent } from './numbers';
import { stateLine, stateWord } from './phrases';
import type { ITrans } from './trans';

export class RunHead {
  /**
   * @param name - the run's, while nothing else is known of it
   * @param stop - asks the run to stop, and may return a message; null if it cannot be stopped
   */
  constructor(
    private readonly trans: ITrans,
    name: string,
    private readonly stop: (() => Promise<string | void>) | null
  ) {
    this._name.textContent = name;
    this._stop.textContent = trans.__('Stop');
    this._stop.hidden = true;
    this._bar.hidden = true;
    this._error.hidden = true;
    this._badge.hidden = true;
    this._error.append(this._errorTitle, this._traceback, this._frames);
    this.node.append(
      element(
        'div',
        { class: 'wb-head' },
        this._badge,
        this._name,
        this._line,
        this._stop
      ),
      this._bar,
      this._answer,
      this._error
    );
    this._answer.hidden = true;
    this._stop.addEventListener('click', () => void this._onStop());
  }

  readonly node = element('div', { class: 'wb-section' });

  show(run: IRun): void {
    const { trans } = this;
    this._run = run;
    setText(this._name, run.name);
    setText(this._badge, stateWord(run, trans));
    this._badge.hidden = false;
    setAttribute(
      this._badge,
      'class',
      `wb-badge wb-state-${run.is_stopping ? 'stopping' : run.state}`
    );
    setText(this._line, stateLine(run, trans));
    this._showBar(run);
    this._showStop();
    this._showError(run);
  }

  /** Leave the traceback out if it is on the page already. */
  setRaised(isRaised: boolean): void {
    this._isRaised = isRaised;
    if (this._run) {
      this._showError(this._run);
    }
  }

  private _showBar(run: IRun): void {
    const { _bar, trans } = this;
    _bar.hidden = run.is_ended || run.fraction === null;
    if (!_bar.hidden && run.fraction !== null) {
      _bar.value = run.fraction;
      setText(_bar, percent(run.fraction));
      setAttribute(
        _bar,
        'aria-label',
        trans.__('Progress of run %1', run.name)
      );
    }
  }

  private _showStop(): void {
    const run = this._run;
    if (!run || !this.stop) {
      return;
    }
    // The button keeps the focus while the run stops, so it is not disabled for good yet.
    const isStopping = this._isAsking || run.is_stopping;
    this._stop.hidden = run.is_ended;
    this._stop.disabled = run.is_ended;
    setAttribute(this._stop, 'aria-disabled', String(isStopping));
    const { trans } = this;
    setText(this._stop, isStopping ? trans.__('stopping…') : trans.__('Stop'));
    setAttribute(this._stop, 'title', trans.__('Stop run %1', run.name));
  }

  private async _onStop(): Promise<void> {
    if (this._isAsking || this._run?.is_stopping || this._run?.is_ended) {
      return;
    }
    this._isAsking = true;
    this._answer.hidden = true;
    this._showStop();
    try {
      this._say((await this.stop?.()) || '');
    } catch (error) {
      const { message } = error as Error;
      this._say(this.trans.__('The run could not be stopped: %1', message));
    }
    this._isAsking = false;
    this._showStop();
  }

  private _say(sentence: string): void {
    this._answer.textContent = sentence;
    this._answer.hidden = !sentence;
  }

  private _showError(run: IRun): void {
    const { trans } = this;
    this._error.hidden = !run.error || this._isRaised;
    if (run.error) {
      const { failed_rank: rank, failed_host: host } = run;
      setText(
        this._errorTitle,
        rank < 0
          ? trans.__('Traceback')
          : host
            ? trans.__('Traceback of rank %1 (%2)', rank, host)
            : trans.__('Traceback of rank %1', rank)
      );
      setAttribute(
        this._traceback,
        'aria-label',
        this._errorTitle.textContent!
      );
      this._frames.hidden = !run.is_folded;
      this._frames.replaceChildren(
        ...withCode(trans.__('All frames: %1', `\`${command(run.name)}\``))
      );
      setText(this._traceback, run.error.split('\n').map(asPrinted).join('\n'));
    }
  }

  private readonly _name = element('strong', { class: 'wb-name' });
  private readonly _badge = element('span', { class: 'wb-badge' });
  private readonly _line = element('span', { class: 'wb-stateline' });
  private readonly _stop = element('button', {
    type: 'button',
    class: 'wb-stop'
  });
  private readonly _bar = element('progress', {
    class: 'wb-progress',
    max: '1'
  });
  private readonly _answer = element('p', { class: 'wb-remark wb-warning' });
  private readonly _error = element('details', {
    class: 'wb-error',
    open: true
  });
  private readonly _errorTitle = element('summary');
  private readonly _traceback = element('pre', {
    tabindex: '0',
    role: 'group'
  });
  private readonly _frames = element('p', { class: 'wb-frames' });
  private _run: IRun | null = null;
  private _isAsking = false;
  private _isRaised = false;
}

/** What prints all frames of the failed rank's traceback. */
function command(name: string): string {
  const quoted = /^[\w.+=-]+$/.test(name) ? name : `'${name}'`;
  return `workbench logs ${quoted} --traceback`;
}
