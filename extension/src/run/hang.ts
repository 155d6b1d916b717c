/**
 * Show who waits for whom, in a line of its own: as a warning, unless ranks are only slow.
 *
 * `workbench/view/hang_text.py` says the same.
 */
import type { IElsewhere, IRun, IWaiting } from '../protocol';
import { element, setAttribute, setText } from './dom';
import { duration } from './numbers';
import type { ITrans } from './trans';

export class HangLine {
  constructor(private readonly trans: ITrans) {
    this.node.append(this._sentence, ' ', this._advice);
  }

  readonly node = element('p', { hidden: true });

  /** Update the line; return the sentence to announce, which is a new hang. */
  show(run: IRun): string {
    const { hang } = run;
    this.node.hidden = !hang;
    setText(this._sentence, hangLine(run, this.trans));
    setText(this._advice, hangAdvice(run, this.trans));
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

/** Which ranks wait for which others, now or at the run's end; empty without a wait. */
export function hangLine(run: IRun, trans: ITrans): string {
  const { hang } = run;
  if (!hang) {
    return '';
  }
  const source = hang.source || trans.__('the cell');
  const parts = [
    // The file of the lines is named once.
    ...hang.waiting.map((one, at) =>
      waiting(one, run, at ? '' : source, trans)
    ),
    ...hang.others.map(one => elsewhere(one, run, trans))
  ];
  const text = parts.reduce((all, one) => trans.__('%1; %2', all, one));
  return trans.__('%1.', text.charAt(0).toUpperCase() + text.slice(1));
}

/** What to do about a hang; empty without a present one. */
export function hangAdvice(run: IRun, trans: ITrans): string {
  return run.hang?.sure && !run.is_ended && !run.is_stopping
    ? trans.__(
        'If it does not continue by itself, stop the run: all ranks must make the same collective calls in the same order.'
      )
    : '';
}

function waiting(
  one: IWaiting,
  run: IRun,
  source: string,
  trans: ITrans
): string {
  const { call, line, amount } = one;
  const [who, time] = [ranks(one, trans), length(one.seconds, trans)];
  const text = run.is_ended
    ? trans.__('%1 had waited in %2 for %3', who, call, time)
    : run.hang!.sure
      ? trans._n(
          '%2 has waited in %3 for %4',
          '%2 have waited in %3 for %4',
          amount,
          who,
          call,
          time
        )
      : trans._n(
          '%2 waits in %3, %4 so far',
          '%2 wait in %3, %4 so far',
          amount,
          who,
          call,
          time
        );
  if (!line) {
    return text;
  }
  return source
    ? trans.__('%1 (line %2 of %3)', text, line, source)
    : trans.__('%1 (line %2)', text, line);
}

function elsewhere(one: IElsewhere, run: IRun, trans: ITrans): string {
  const { amount, state } = one;
  const who = ranks(one, trans);
  if (state === 'ended') {
    return run.is_ended
      ? trans.__('%1 had ended', who)
      : trans._n('%2 has ended', '%2 have ended', amount, who);
  }
  const where = place(one, trans);
  if (state === 'silent') {
    const time = length(one.seconds, trans);
    return run.is_ended
      ? trans.__('%1 had not answered for %2, last %3', who, time, where)
      : trans._n(
          '%2 has not answered for %3, last %4',
          '%2 have not answered for %3, last %4',
          amount,
          who,
          time,
          where
        );
  }
  return run.is_ended
    ? trans._n('%2 was %3', '%2 were %3', amount, who, where)
    : trans._n('%2 is %3', '%2 are %3', amount, who, where);
}

function place({ line, doing }: IElsewhere, trans: ITrans): string {
  if (!line) {
    return doing ? trans.__('at %1', doing) : trans.__('at work');
  }
  return doing
    ? trans.__('at line %1 (%2)', line, doing)
    : trans.__('at line %1', line);
}

/** Whole seconds: waits are not sampled more often. */
function length(seconds: number, trans: ITrans): string {
  return seconds < 60 ? trans.__('%1 s', seconds) : duration(seconds, trans);
}

function ranks(one: IWaiting | IElsewhere, trans: ITrans): string {
  return trans._n('rank %2', 'ranks %2', one.amount, one.ranks);
}
