/**
 * Show recent sweeps in the panel, and each in a tab of its own: its trials and their picture.
 */
import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { Poll } from '@lumino/polling';
import * as React from 'react';

import { runIcon } from './icons';
import type { ISweep, ISweeps } from './protocol';

const LOOK = 2000;
const SLOWEST = 30_000;

/** Asks the server again and again while it is seen, until that is needless. */
abstract class PolledWidget<T> extends ReactWidget {
  constructor(private readonly ask: () => Promise<T>) {
    super();
    this._poll = new Poll({
      auto: false,
      factory: async () => {
        this.answer = await this.ask();
        this.update();
        if (this.isOver(this.answer)) {
          void this._poll.stop();
        }
      },
      frequency: { interval: LOOK, backoff: true, max: SLOWEST },
      standby: 'when-hidden'
    });
  }

  override dispose(): void {
    this._poll.dispose();
    super.dispose();
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    void this._poll.start();
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    if (!this.answer || !this.isOver(this.answer)) {
      void this._poll.start();
    }
  }

  protected override onBeforeHide(message: Message): void {
    super.onBeforeHide(message);
    void this._poll.stop();
  }

  protected abstract isOver(answer: T): boolean;

  protected answer: T | null = null;
  private readonly _poll: Poll;
}

/** The newest sweeps, newest first; nothing where there are none. */
export class SweepList extends PolledWidget<ISweeps> {
  constructor(
    ask: () => Promise<ISweeps>,
    private readonly open: (id: string) => void
  ) {
    super(ask);
    this.addClass('wb-sweeps');
  }

  protected override isOver(): boolean {
    return false;
  }

  protected override render(): JSX.Element {
    const sweeps = this.answer?.sweeps ?? [];
    if (!sweeps.length) {
      return (
        <p className="wb-empty">
          {
            'No sweeps yet. Start one with a cell that begins with %%dist_sweep.'
          }
        </p>
      );
    }
    return (
      <ul className="wb-listed" aria-label={'Recent sweeps'}>
        {sweeps.map(sweep => (
          <li key={sweep.id} className="wb-listed-sweep">
            <button
              type="button"
              className="wb-listed-open"
              title={sweep.progress}
              onClick={() => this.open(sweep.id)}
            >
              <span className="wb-listed-line">
                <span className="wb-listed-name">{sweep.name}</span>
              </span>
              <span className="wb-listed-line wb-mod-quiet">
                <span className="wb-listed-name">{sweep.progress}</span>
              </span>
            </button>
          </li>
        ))}
      </ul>
    );
  }
}

/** One sweep, as it is now. */
export class SweepTab extends PolledWidget<ISweep> {
  constructor(
    readonly sweep: string,
    ask: () => Promise<ISweep>
  ) {
    super(ask);
    this.addClass('wb-tab');
    this.addClass('wb-sweep');
    this.title.icon = runIcon;
    this.title.label = 'Sweep';
    this.title.closable = true;
  }

  protected override isOver(answer: ISweep): boolean {
    return answer.is_over;
  }

  protected override render(): JSX.Element {
    const { answer } = this;
    if (!answer) {
      return <p className="wb-empty">{'Loading…'}</p>;
    }
    this.title.label = `Sweep ${answer.name}`;
    return (
      <>
        {answer.lines.map(line => (
          <p key={line}>{line}</p>
        ))}
        {answer.picture && (
          <img
            src={`data:image/png;base64,${answer.picture}`}
            alt={answer.says}
          />
        )}
        <table className="wb-table">
          <caption className="wb-heard">{`Trials of ${answer.name}`}</caption>
          <thead>
            <tr>
              {answer.headers.map(header => (
                <th key={header} scope="col">
                  {header}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {answer.rows.map(row => (
              <tr key={row[0]}>
                {row.map((word, place) => (
                  <td key={answer.headers[place]}>{word}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </>
    );
  }
}
