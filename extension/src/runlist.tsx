/**
 * Show recent runs, to be opened, stopped and compared.
 */
import { ReactWidget, stopIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import type { ClustersModel } from './clusters';
import { MOST_COMPARED } from './comparecharts';
import type { IListedRun } from './protocol';
import { count } from './run/numbers';
import { Sparkline } from './sparkline';
import { lastValue, moment, standing } from './words';

/** What a person can do with runs of the list. */
export interface IRunActions {
  open: (id: string) => void;
  compare: (ids: string[]) => void;
}

/** The newest runs, newest first. */
export class RunList extends ReactWidget {
  constructor(
    private readonly model: ClustersModel,
    private readonly actions: IRunActions
  ) {
    super();
    this.addClass('wb-runs');
    model.changed.connect(this.update, this);
  }

  protected override render(): JSX.Element {
    const { model, actions } = this;
    return <Runs model={model} actions={actions} />;
  }
}

interface IRunsProps {
  model: ClustersModel;
  actions: IRunActions;
}

function Runs({ model, actions }: IRunsProps): JSX.Element | null {
  const [chosen, setChosen] = React.useState<readonly string[]>([]);
  const [current, setCurrent] = React.useState('');
  const [showsAll, setShowsAll] = React.useState(false);
  const { runs, trouble } = model;
  if (trouble?.kind === 'absent') {
    return null;
  }
  if (!runs.length) {
    return model.isReady && !trouble ? (
      <p className="wb-empty">
        {`No runs yet. Start one with a cell that begins with %%dist_train.`}
      </p>
    ) : null;
  }
  const plain = runs.filter(run => run.only_printed).length;
  const listed = runs.filter(run => showsAll || !run.only_printed);
  const there = chosen.filter(id => listed.some(run => run.id === id));
  const stop = listed.some(run => run.id === current) ? current : listed[0]?.id;
  return (
    <>
      {there.length > 0 && (
        <Comparison
          amount={there.length}
          compare={() => actions.compare(there)}
          clear={() => setChosen([])}
        />
      )}
      {/* An empty list would be one for those who do not see it. */}
      <ul
        hidden={!listed.length}
        className="wb-listed"
        aria-label={'Recent runs'}
        onKeyDown={walk}
      >
        {listed.map(run => (
          <Row
            key={run.id}
            run={run}
            model={model}
            isChosen={there.includes(run.id)}
            isStop={run.id === stop}
            choose={isChosen =>
              setChosen([
                ...there.filter(id => id !== run.id),
                ...(isChosen ? [run.id] : [])
              ])
            }
            reach={() => setCurrent(run.id)}
            open={() => actions.open(run.id)}
          />
        ))}
      </ul>
      {plain > 0 && (
        <button
          type="button"
          className="wb-listed-more"
          aria-expanded={showsAll}
          onClick={() => setShowsAll(!showsAll)}
        >
          {`${showsAll ? 'Hide' : 'Show'} ${count(plain, 'run')} without values`}
        </button>
      )}
    </>
  );
}

/** A run's state as a coloured icon, as in its own view; its word is below its name. */
function RunMark({ run }: { run: IListedRun }): JSX.Element {
  const state = run.is_stopping ? 'stopping' : run.state;
  return (
    <span className={`wb-listed-mark wb-state-${state}`} aria-hidden="true" />
  );
}

function Comparison(props: {
  amount: number;
  compare: () => void;
  clear: () => void;
}): JSX.Element {
  const { amount, compare, clear } = props;
  const canCompare = amount > 1 && amount <= MOST_COMPARED;
  return (
    <div className="wb-chosen">
      <button
        type="button"
        className={`wb-action${canCompare ? ' wb-mod-main' : ''}`}
        aria-disabled={!canCompare}
        title={`Show the curves of 2 to ${MOST_COMPARED} runs in one chart`}
        onClick={() => canCompare && compare()}
      >
        {amount > 1
          ? `Compare ${count(amount, 'run')}`
          : 'Compare: choose one more'}
      </button>
      <button type="button" className="wb-action" onClick={clear}>
        {'Clear'}
      </button>
    </div>
  );
}

interface IRowProps {
  run: IListedRun;
  model: ClustersModel;
  isChosen: boolean;
  /** Whether the Tab key stops at this row; the arrow keys lead to the others. */
  isStop: boolean;
  choose: (isChosen: boolean) => void;
  reach: () => void;
  open: () => void;
}

function Row(props: IRowProps): JSX.Element {
  const { run, model } = props;
  const tabIndex = props.isStop ? 0 : -1;
  const when = new Date(1000 * run.created).toLocaleString();
  const where = `${run.id} on cluster ${run.cluster}, ${when}`;
  const refusal = model.refusal(run.id);
  return (
    <li className="wb-listed-run" data-state={run.state} onFocus={props.reach}>
      <input
        type="checkbox"
        data-column="choose"
        tabIndex={tabIndex}
        checked={props.isChosen}
        aria-label={`Choose ${run.name} to compare`}
        onChange={event => props.choose(event.target.checked)}
      />
      <button
        type="button"
        className="wb-listed-open"
        data-column="open"
        tabIndex={tabIndex}
        title={[where, run.message].filter(Boolean).join('\n')}
        onClick={props.open}
      >
        <RunMark run={run} />
        <span className="wb-listed-line">
          <span className="wb-listed-name">{run.name}</span>
          <span>{lastValue(run)}</span>
        </span>
        {run.sparkline_name && <Sparkline run={run} />}
        <span className="wb-listed-line wb-mod-quiet">
          <span className="wb-listed-name">{standing(run)}</span>
          <span>{moment(run.created, run.now)}</span>
        </span>
      </button>
      {!run.is_ended && (
        <button
          type="button"
          className="wb-listed-stop"
          data-column="stop"
          tabIndex={tabIndex}
          aria-disabled={run.is_stopping || model.isBusy(run.id)}
          title={`Stop ${run.name}`}
          aria-label={`Stop ${run.name}`}
          onClick={() =>
            !run.is_stopping &&
            !model.isBusy(run.id) &&
            void model.stopRun(run.id)
          }
        >
          <stopIcon.react tag="span" width="14px" height="14px" />
        </button>
      )}
      {refusal && (
        <p className="wb-refusal" role="alert">
          {refusal}
        </p>
      )}
    </li>
  );
}

/** Move from row to row with the arrow keys, staying in the column. */
function walk(event: React.KeyboardEvent<HTMLUListElement>): void {
  const rows = [...event.currentTarget.children] as HTMLElement[];
  const target = event.target as HTMLElement;
  const here = rows.findIndex(row => row.contains(target));
  const goals: { [key: string]: number } = {
    ArrowDown: Math.min(here + 1, rows.length - 1),
    ArrowUp: Math.max(here - 1, 0),
    Home: 0,
    End: rows.length - 1
  };
  const row = rows[goals[event.key]];
  if (row) {
    event.preventDefault();
    const column = target.dataset.column ?? 'open';
    const goal =
      row.querySelector<HTMLElement>(`[data-column="${column}"]`) ??
      row.querySelector<HTMLElement>('[data-column="open"]');
    goal?.focus();
  }
}
