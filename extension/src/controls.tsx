/**
 * What can be asked of one cluster: its size, its time to live, and its end.
 */
import * as React from 'react';

import type { ClustersModel } from './clusters';
import type { ICluster } from './protocol';
import type { ITrans } from './run/trans';
import {
  hasNodes,
  MAX_NODES,
  most,
  numberOf,
  resting,
  sensible,
  sizeOf,
  type IDraft
} from './sizing';

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

/** What can be asked of one cluster. */
export function Controls(props: {
  cluster: ICluster;
  model: ClustersModel;
  trans: ITrans;
  remove: () => void;
}): JSX.Element {
  const { cluster, model, trans, remove } = props;
  const [draft, setDraft] = React.useState<IDraft | null>(null);
  const shown = draft ?? resting(cluster, model.bounds);
  const wanted = sizeOf(cluster, shown, model.bounds);
  const isBusy = model.isBusy(cluster.name);
  const isOfNodes = hasNodes(cluster);
  const can = sensible(cluster, numberOf(wanted));

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
        {isOfNodes ? (
          <NodesBox
            draft={shown}
            isWrong={wanted === null}
            trans={trans}
            edit={setDraft}
          />
        ) : (
          <SizeBox
            draft={shown}
            isWrong={wanted === null}
            model={model}
            trans={trans}
            edit={setDraft}
          />
        )}
        <Action
          label={trans.__('Start')}
          title={
            isOfNodes
              ? trans.__('Start this cluster with that many nodes')
              : trans.__('Start this cluster with that many ranks')
          }
          kind={can.start ? 'main' : undefined}
          isEnabled={can.start && !isBusy}
          act={() => send('start')}
        />
        <Action
          label={trans.__('Resize')}
          title={
            isOfNodes
              ? trans.__('Give this cluster that many nodes')
              : trans.__('Give this cluster that many ranks')
          }
          kind={can.resize ? 'main' : undefined}
          isEnabled={can.resize && !isBusy}
          act={() => send('resize')}
        />
      </div>
      {!isOfNodes && (
        <Oversubscribe
          draft={shown}
          model={model}
          trans={trans}
          edit={setDraft}
        />
      )}
      {can.extend && <Longer cluster={cluster} model={model} trans={trans} />}
      <div className="wb-controls-row">
        <Action
          label={trans.__('Stop training')}
          title={trans.__('Ask the unfinished runs of this cluster to stop')}
          isEnabled={can.stop && !isBusy}
          act={() => void model.stopTraining(cluster.name)}
        />
        <Action
          label={trans.__('Delete')}
          title={
            isOfNodes
              ? trans.__('End the ranks and nodes of this cluster')
              : trans.__('End the ranks of this cluster')
          }
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

/** The number of nodes. */
function NodesBox(props: {
  draft: IDraft;
  isWrong: boolean;
  trans: ITrans;
  edit: (draft: IDraft | null) => void;
}): JSX.Element {
  const { draft, trans, edit, isWrong } = props;
  return (
    <label className="wb-size">
      {trans.__('Nodes')}
      <input
        type="number"
        min={0}
        max={MAX_NODES}
        value={draft.text}
        aria-invalid={isWrong}
        title={trans.__(
          'From 0 to %1; 0 keeps the definition and pays nothing. Escape takes an edit back.',
          MAX_NODES
        )}
        onChange={event => edit({ ...draft, text: event.target.value })}
        onKeyDown={event => event.key === 'Escape' && edit(null)}
      />
    </label>
  );
}

/** More time to live. */
function Longer(props: {
  cluster: ICluster;
  model: ClustersModel;
  trans: ITrans;
}): JSX.Element {
  const { cluster, model, trans } = props;
  const [text, setText] = React.useState('1');
  const hours = Number(text);
  const isWrong = !(text.trim() && hours > 0 && hours <= 8760);
  const isEnabled = !isWrong && !model.isBusy(cluster.name);
  const extend = () => {
    if (isEnabled) {
      void model.extend(cluster.name, Math.round(3600 * hours));
    }
  };
  return (
    <div className="wb-controls-row">
      <label className="wb-size">
        {trans.__('Longer by, h')}
        <input
          type="number"
          min={0}
          step="any"
          value={text}
          aria-invalid={isWrong}
          title={trans.__('How many hours longer the cluster may live')}
          onChange={event => setText(event.target.value)}
          onKeyDown={event => {
            if (event.key === 'Enter') {
              event.preventDefault(); // it would send the size
              extend();
            }
          }}
        />
      </label>
      <Action
        label={trans.__('Extend')}
        title={trans.__('Let this cluster live longer')}
        isEnabled={isEnabled}
        act={extend}
      />
    </div>
  );
}
