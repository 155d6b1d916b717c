/**
 * The head of a run's view: name, state, progress, and errors.
 */
import type { IRun } from '../protocol';
import { ActionButton } from './actionbutton';
import { element, setAttribute, setText, withCode } from './dom';
import { asPrinted } from './lines';
import { percent } from './numbers';
import { stateLine, stateWord } from './phrases';
import type { IRunActions } from './view';

export class RunHead {
  /**
   * @param name - the run's, while nothing else is known of it
   * @param actions - what the run can be asked for
   */
  constructor(name: string, { stop, resume }: IRunActions) {
    this._name.textContent = name;
    const say = (sentence: string) => this._say(sentence);
    const stopping = {
      look: 'wb-stop',
      label: 'Stop',
      busy: 'stopping…',
      refusal: (message: string) => `The run could not be stopped: ${message}`
    };
    const resuming = {
      look: 'wb-resume',
      label: 'Resume',
      busy: 'resuming…',
      refusal: (message: string) => `The run could not be resumed: ${message}`
    };
    this._stop = new ActionButton({ ...stopping, ask: stop ?? null }, say);
    this._resume = new ActionButton({ ...resuming, ask: resume ?? null }, say);
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
        this._stop.node,
        this._resume.node
      ),
      this._bar,
      this._answer,
      this._error
    );
    this._answer.hidden = true;
  }

  readonly node = element('div', { class: 'wb-section' });

  show(run: IRun): void {
    this._run = run;
    setText(this._name, run.name);
    setText(this._badge, stateWord(run));
    this._badge.hidden = false;
    setAttribute(
      this._badge,
      'class',
      `wb-badge wb-state-${run.is_stopping ? 'stopping' : run.state}`
    );
    setText(this._line, stateLine(run));
    this._showBar(run);
    this._showButtons(run);
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
    const { _bar } = this;
    _bar.hidden = run.is_ended || run.fraction === null;
    if (!_bar.hidden && run.fraction !== null) {
      _bar.value = run.fraction;
      setText(_bar, percent(run.fraction));
      setAttribute(_bar, 'aria-label', `Progress of run ${run.name}`);
    }
  }

  private _showButtons(run: IRun): void {
    const { _stop, _resume } = this;
    const { name, is_ended: isEnded, is_stopping: isStopping } = run;
    const hadFocus = _resume.node === document.activeElement;
    _stop.show(!isEnded, isStopping, `Stop run ${name}`);
    _resume.show(
      !!run.is_resumable,
      false,
      `Resume run ${name} from its newest snapshot`
    );
    if (hadFocus && _resume.node.hidden) {
      _stop.node.focus();
    }
  }

  private _say(sentence: string): void {
    this._answer.textContent = sentence;
    this._answer.hidden = !sentence;
  }

  private _showError(run: IRun): void {
    this._error.hidden = !run.error || this._isRaised;
    if (run.error) {
      const { failed_rank: rank, failed_host: host } = run;
      setText(
        this._errorTitle,
        rank < 0
          ? 'Traceback'
          : host
            ? `Traceback of rank ${rank} (${host})`
            : `Traceback of rank ${rank}`
      );
      setAttribute(
        this._traceback,
        'aria-label',
        this._errorTitle.textContent!
      );
      this._frames.hidden = !run.is_folded;
      this._frames.replaceChildren(
        ...withCode(`All frames: ${`\`${command(run.name)}\``}`)
      );
      setText(this._traceback, run.error.split('\n').map(asPrinted).join('\n'));
    }
  }

  private readonly _name = element('strong', { class: 'wb-name' });
  private readonly _badge = element('span', { class: 'wb-badge' });
  private readonly _line = element('span', { class: 'wb-stateline' });
  private readonly _stop: ActionButton;
  private readonly _resume: ActionButton;
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
  private _isRaised = false;
}

/** What prints all frames of the failed rank's traceback. */
function command(name: string): string {
  const quoted = /^[\w.+=-]+$/.test(name) ? name : `'${name}'`;
  return `workbench logs ${quoted} --traceback`;
}
