/**
 * Show one cluster: what was asked for, what is so, and the controls of both.
 */
import * as React from 'react';

import type { ClustersModel } from './clusters';
import type { ClusterState, ICluster } from './protocol';
import type { ITrans } from './run/trans';
import { most, resting, sensible, size, type IDraft } from './sizing';
import { against, clusterWord, place, price, spent, timeToLive } from './words';

/** Shapes beside the words, so that no state is told by its colour alone. */
const SHAPES: { [state in ClusterState]: JSX.Element } = {
  down: <circle cx="5" cy="5" r="3.5" fill="none" />,
  starting: <path d="M5 1.5a3.5 3.5 0 0 1 0 7z" />,
  ready: <circle cx="5" cy="5" r="3.5" />,
  resizing: <path d="M5 1.5a3.5 3.5 0 0 1 0 7z" />,
  stopping: <path d="M5 1.5a3.5 3.5 0 0 0 0 7z" />,
  failed: <path d="M2 2l6 6M8 2l-6 6" />
};

/** A cluster's state as a word with a shape. */
export function Badge(props: {
  state: ClusterState;
  trans: ITrans;
}): JSX.Element {
  const { state, trans } = props;
  return (
    <span className="wb-cluster-state" data-state={state}>
      <svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true">
        {SHAPES[state]}
        <circle cx="5" cy="5" r="3.5" fill="none" />
      </svg>
      {clusterWord(state, trans)}
    </span>
  );
}

/** A button that stays in the tab order while it makes no sense, so that focus is never lost. */
export function Action(props: {
  label: string;
  title: string;
  isEnabled: boolean;
  kind?: 'main' | 'warn';
  act: () => void;
}): JSX.Element {
  const { label, title, isEnabled, kind, act } = props;
  return (
    <button
      type="button"
      className={`wb-action${kind ? ` wb-mod-${kind}` : ''}`}
      title={title}
      aria-disabled={!isEnabled}
      onClick={() => isEnabled && act()}
    >
      {label}
    </button>
  );
}

/** One cluster. */
export function ClusterCard(props: {
  cluster: ICluster;
  model: ClustersModel;
  trans: ITrans;
  remove: () => void;
}): JSX.Element {
  const { cluster, model, trans } = props;
  const id = React.useId();
  const refusal = model.refusal(cluster.name);
  return (
    <section className="wb-cluster" aria-labelledby={id}>
      <header className="wb-cluster-header">
        <h4 id={id}>{cluster.name}</h4>
        <Badge state={cluster.state} trans={trans} />
      </header>
      <Facts cluster={cluster} trans={trans} />
      {cluster.message && (
        <p className="wb-cluster-message">{cluster.message}</p>
      )}
      <Controls {...props} />
      {refusal && (
        <p className="wb-refusal" role="alert">
          {refusal}
        </p>
      )}
    </section>
  );
}

function Facts(props: { cluster: ICluster; trans: ITrans }): JSX.Element {
  const { cluster, trans } = props;
  const rows = [
    [
      trans.__('Ranks'),
      against(cluster.ranks_actual, cluster.ranks_asked, trans)
    ],
    [
      trans.__('Nodes'),
      against(cluster.nodes_actual, cluster.nodes_asked, trans)
    ],
    [trans.__('Where'), place(cluster, trans)],
    [trans.__('Price'), price(cluster, trans)],
    [trans.__('So far'), spent(cluster, trans)],
    [trans.__('Time to live'), timeToLive(cluster, Date.now() / 1000, trans)]
  ];
  return (
    <dl className="wb-facts">
      {rows.map(([term, value]) => (
        <React.Fragment key={term}>
          <dt>{term}</dt>
          <dd>{value}</dd>
        </React.Fragment>
      ))}
    </dl>
  );
}

function Controls(props: {
  cluster: ICluster;
  model: ClustersModel;
  trans: ITrans;
  remove: () => void;
}): JSX.Element {
  const { cluster, model, trans, remove } = props;
  const [draft, setDraft] = React.useState<IDraft | null>(null);
  const shown = draft ?? resting(cluster, model.bounds);
  const wanted = size(shown, model.bounds);
  const isBusy = model.isBusy(cluster.name);
  const can = sensible(cluster, wanted?.ranks ?? null);

  const send = (how: 'start' | 'resize') => {
    if (wanted && !isBusy) {
      void model[how](cluster.name, wanted).then(
        isDone => isDone && setDraft(null)
      );
    }
  };
  const submit = (event: React.FormEvent) => {
    event.preventDefault();
    if (can.start || can.resize) {
      send(can.start ? 'start' : 'resize');
    }
  };

  return (
    <form
      className="wb-controls"
      aria-busy={isBusy}
      noValidate
      onSubmit={submit}
    >
      <div className="wb-controls-row">
        <SizeBox
          draft={shown}
          isWrong={wanted === null}
          model={model}
          trans={trans}
          edit={setDraft}
        />
        <Action
          label={trans.__('Start')}
          title={trans.__('Start this cluster with that many ranks')}
          kind={can.start ? 'main' : undefined}
          isEnabled={can.start && !isBusy}
          act={() => send('start')}
        />
        <Action
          label={trans.__('Resize')}
          title={trans.__('Give this cluster that many ranks')}
          kind={can.resize ? 'main' : undefined}
          isEnabled={can.resize && !isBusy}
          act={() => send('resize')}
        />
      </div>
      <Oversubscribe
        draft={shown}
        model={model}
        trans={trans}
        edit={setDraft}
      />
      <div className="wb-controls-row">
        <Action
          label={trans.__('Stop training')}
          title={trans.__('Ask the unfinished runs of this cluster to stop')}
          isEnabled={can.stop && !isBusy}
          act={() => void model.stopTraining(cluster.name)}
        />
        <Action
          label={trans.__('Delete')}
          title={trans.__('End the ranks of this cluster')}
          kind="warn"
          isEnabled={can.remove && !isBusy}
          act={remove}
        />
      </div>
    </form>
  );
}

interface IEditing {
  draft: IDraft;
  model: ClustersModel;
  trans: ITrans;
  /** Keep an edit; null to let go of it. */
  edit: (draft: IDraft | null) => void;
}

/** The number of ranks. */
export function SizeBox(props: IEditing & { isWrong: boolean }): JSX.Element {
  const { draft, model, trans, edit, isWrong } = props;
  return (
    <label className="wb-size">
      {trans.__('Ranks')}
      <input
        type="number"
        min={1}
        max={most(draft.oversubscribe, model.bounds)}
        value={draft.text}
        aria-invalid={isWrong}
        title={trans.__(
          'From 1 to %1; this machine has %2 slots. Escape takes an edit back.',
          most(draft.oversubscribe, model.bounds),
          model.bounds.slots
        )}
        onChange={event => edit({ ...draft, text: event.target.value })}
        onKeyDown={event => event.key === 'Escape' && edit(null)}
      />
    </label>
  );
}

/** Whether ranks may share cores. */
export function Oversubscribe(props: IEditing): JSX.Element {
  const { draft, model, trans, edit } = props;
  return (
    <label className="wb-oversubscribe">
      <input
        type="checkbox"
        checked={draft.oversubscribe}
        onChange={event =>
          edit({ ...draft, oversubscribe: event.target.checked })
        }
      />
      {trans._n(
        'More ranks than its %1 slot',
        'More ranks than its %1 slots',
        model.bounds.slots
      )}
    </label>
  );
}
