/**
 * The controls of one cluster: size, time to live and deletion.
 */
import * as React from 'react';

import type { ClustersModel } from './clusters';
import type { ICluster } from './protocol';
import { said } from './run/phrases';
import type { ITrans } from './run/trans';
import {
  hasNodes,
  MAX_NODES,
  most,
  moveTimes,
  numberOf,
  isDeleted,
  refusals,
  resting,
  sizeOf,
  type IDraft,
  type ResizeAt
} from './sizing';
import { providerWord, sizeWord } from './words';

/** A button that stays in the tab order while it cannot be pressed, so that focus is never lost. */
export function Action(props: {
  label: string;
  /** What it does. */
  title: string;
  /** Why it cannot be pressed, in place of the title; nothing where it can. */
  refusal?: string;
  isBusy?: boolean;
  kind?: 'main' | 'warn';
  act: () => void;
}): JSX.Element {
  const { label, title, refusal, isBusy, kind, act } = props;
  const isEnabled = !refusal && !isBusy;
  const isKind = kind === 'warn' || (kind === 'main' && !refusal);
  return (
    <button
      type="button"
      className={`wb-action${isKind ? ` wb-mod-${kind}` : ''}`}
      title={refusal || title}
      aria-disabled={!isEnabled}
      onClick={() => isEnabled && act()}
    >
      {label}
    </button>
  );
}

/** The controls of one cluster. */
export function Controls(props: {
  cluster: ICluster;
  model: ClustersModel;
  trans: ITrans;
  remove: () => void;
}): JSX.Element {
  const { cluster, model, trans, remove } = props;
  const { name } = cluster;
  const [draft, setDraft] = React.useState<IDraft | null>(null);
  const shown = draft ?? resting(cluster, model.bounds);
  const wanted = sizeOf(cluster, shown, model.bounds);
  const isBusy = model.isBusy(name);
  const isOfNodes = hasNodes(cluster);
  const why = refusals(cluster, numberOf(wanted), trans);
  const [asked, setAt] = React.useState<ResizeAt>('step');
  const times = moveTimes(cluster);
  const at = times.includes(asked) ? asked : 'step';
  const effect = !why.resize && cluster.resizing?.[at];
  const sizing = sizeWord(numberOf(wanted) ?? 0, isOfNodes, trans);

  const send = (how: 'start' | 'resize') => {
    if (wanted && !isBusy) {
      const size =
        how === 'resize' && times.length ? { ...wanted, at } : wanted;
      void model[how](name, size).then(isDone => isDone && setDraft(null));
    }
  };
  const submit = (event: React.FormEvent) => {
    event.preventDefault();
    if (!why.start || !why.resize) {
      send(why.start ? 'resize' : 'start');
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
          title={trans.__(
            'Start cluster %1: %2, %3',
            name,
            sizing,
            providerWord(cluster, trans)
          )}
          kind="main"
          refusal={why.start}
          isBusy={isBusy}
          act={() => send('start')}
        />
        {!isDeleted(cluster) && (
          <Action
            label={trans.__('Resize')}
            title={trans.__('Resize cluster %1 to %2', name, sizing)}
            kind="main"
            refusal={why.resize}
            isBusy={isBusy}
            act={() => send('resize')}
          />
        )}
      </div>
      {!why.resize && times.length > 0 && (
        <MoveTime at={at} times={times} trans={trans} choose={setAt} />
      )}
      {effect && (
        <p className="wb-effect" role="status">
          {said(effect, trans)}
        </p>
      )}
      {!isOfNodes && (
        <Oversubscribe
          draft={shown}
          model={model}
          trans={trans}
          edit={setDraft}
        />
      )}
      {cluster.is_wanted && cluster.expires !== null && (
        <Extension cluster={cluster} model={model} trans={trans} />
      )}
      <div className="wb-controls-row">
        {!isDeleted(cluster) && (
          <Action
            key="stop"
            label={trans.__('Stop training')}
            title={trans.__('Stop the unfinished runs of cluster %1', name)}
            refusal={why.stop}
            isBusy={isBusy}
            act={() => void model.stopTraining(name)}
          />
        )}
        {isDeleted(cluster) ? (
          <Action
            key="end" // one button, which keeps the focus
            label={trans.__('Remove from list')}
            title={trans.__(
              'Remove the deleted cluster %1 from the list; its runs are kept',
              name
            )}
            isBusy={isBusy}
            act={() => void model.forget(name)}
          />
        ) : (
          <Action
            key="end"
            label={trans.__('Delete')}
            title={trans.__('Delete cluster %1 with its ranks and nodes', name)}
            kind="warn"
            refusal={why.remove}
            isBusy={isBusy}
            act={remove}
          />
        )}
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

/** When the run moves to the ranks of the new size. */
function MoveTime(props: {
  at: ResizeAt;
  times: ResizeAt[];
  trans: ITrans;
  choose: (at: ResizeAt) => void;
}): JSX.Element {
  const { at, times, trans, choose } = props;
  const words: Record<ResizeAt, string> = {
    step: trans.__('at the next iteration'),
    epoch: trans.__('at the end of the epoch'),
    end: trans.__('after the run')
  };
  return (
    <label className="wb-size">
      {trans.__('The run moves')}
      <select
        value={at}
        onChange={event => choose(event.target.value as ResizeAt)}
      >
        {times.map(time => (
          <option key={time} value={time}>
            {words[time]}
          </option>
        ))}
      </select>
    </label>
  );
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
          'From 1 to %1; this machine has %2 slots. Escape undoes an edit.',
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
        'Allow more ranks than the %1 slot',
        'Allow more ranks than the %1 slots',
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
          "From 0 to %1; 0 releases all nodes and keeps the cluster's definition. Escape undoes an edit.",
          MAX_NODES
        )}
        onChange={event => edit({ ...draft, text: event.target.value })}
        onKeyDown={event => event.key === 'Escape' && edit(null)}
      />
    </label>
  );
}

/** Extends the time to live. */
function Extension(props: {
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
        {trans.__('Extend by, h')}
        <input
          type="number"
          min={0}
          step="any"
          value={text}
          aria-invalid={isWrong}
          title={trans.__('Hours to add to the time to live')}
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
        title={trans.__('Extend the time to live')}
        refusal={isWrong ? trans.__('The number is out of range.') : ''}
        isBusy={model.isBusy(cluster.name)}
        act={extend}
      />
    </div>
  );
}
