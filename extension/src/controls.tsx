/**
 * The controls of one cluster: size, time to live and deletion.
 */
import * as React from 'react';

import { Action } from './action';
import type { ClustersModel } from './clusters';
import { NodesForm, ProviderBox, useNodes } from './nodesform';
import type { ICluster } from './protocol';
import { count } from './run/numbers';
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

/** The controls of one cluster; of one that was never asked for there is only Start. */
export function Controls(props: {
  cluster: ICluster;
  model: ClustersModel;
  remove: () => void;
}): JSX.Element {
  const { cluster, model, remove } = props;
  const { name } = cluster;
  const [draft, setDraft] = React.useState<IDraft | null>(null);
  const nodes = useNodes(cluster, model);
  // What is up keeps its provider.
  const isOfForm = !cluster.is_wanted && !!nodes.place?.has_nodes;
  const isOfNodes = isOfForm || (cluster.is_wanted && hasNodes(cluster));
  const sized = cluster.is_wanted || !hasNodes(cluster) ? cluster : null;
  const shown = draft ?? resting(sized, model.bounds);
  const wanted = sizeOf(sized, shown, model.bounds);
  const number = isOfForm ? (nodes.request?.nodes ?? null) : numberOf(wanted);
  const isBusy = model.isBusy(name);
  const why = refusals(cluster, number);
  const whyNotStart = why.start || (isOfForm ? nodes.refusal : '');
  const [asked, setAt] = React.useState<ResizeAt>('step');
  const times = moveTimes(cluster);
  const at = times.includes(asked) ? asked : 'step';
  const effect = !why.resize && cluster.resizing?.[at];
  const sizing = sizeWord(number ?? 0, isOfNodes);
  const where = cluster.is_wanted
    ? providerWord(cluster)
    : (nodes.place?.label ?? 'this machine');

  const send = async (how: 'start' | 'resize') => {
    if (isOfForm && nodes.request) {
      const { price = null } = nodes.estimate;
      await model.startNodes(name, nodes.request, price);
    } else if (wanted) {
      const size =
        how === 'resize' && times.length ? { ...wanted, at } : wanted;
      if (await model[how](name, size)) {
        setDraft(null);
      }
    }
  };
  const submit = (event: React.FormEvent) => {
    event.preventDefault();
    if (!isBusy && (!whyNotStart || !why.resize)) {
      void send(whyNotStart ? 'resize' : 'start');
    }
  };

  return (
    <form
      className="wb-controls"
      aria-busy={isBusy}
      noValidate
      onSubmit={submit}
    >
      {!cluster.is_wanted && <ProviderBox nodes={nodes} />}
      {isOfForm && <NodesForm cluster={name} {...{ nodes, model }} />}
      <div className="wb-controls-row">
        {!isOfForm &&
          (isOfNodes ? (
            <NodesBox draft={shown} isWrong={wanted === null} edit={setDraft} />
          ) : (
            <SizeBox
              draft={shown}
              isWrong={wanted === null}
              model={model}
              edit={setDraft}
            />
          ))}
        <Action
          label={'Start'}
          title={`Start cluster ${name}: ${sizing}, ${where}`}
          kind="main"
          refusal={whyNotStart}
          isBusy={isBusy}
          act={() => void send('start')}
        />
        {!isDeleted(cluster) && (
          <Action
            label={'Resize'}
            title={`Resize cluster ${name} to ${sizing}`}
            kind="main"
            refusal={why.resize}
            isBusy={isBusy}
            act={() => void send('resize')}
          />
        )}
      </div>
      {!why.resize && times.length > 0 && (
        <MoveTime at={at} times={times} choose={setAt} />
      )}
      {effect && (
        <p className="wb-effect" role="status">
          {effect}
        </p>
      )}
      {!isOfNodes && (
        <Oversubscribe draft={shown} model={model} edit={setDraft} />
      )}
      {cluster.is_wanted && cluster.expires !== null && (
        <Extension cluster={cluster} model={model} />
      )}
      {cluster.revision > 0 && (
        <div className="wb-controls-row">
          {!isDeleted(cluster) && (
            <Action
              key="stop"
              label={'Stop training'}
              title={`Stop the unfinished runs of cluster ${name}`}
              refusal={why.stop}
              isBusy={isBusy}
              act={() => void model.stopTraining(name)}
            />
          )}
          {isDeleted(cluster) ? (
            <Action
              key="end" // one button, which keeps the focus
              label={'Remove from list'}
              title={`Remove the deleted cluster ${name} from the list; its runs are kept`}
              isBusy={isBusy}
              act={() => void model.forget(name)}
            />
          ) : (
            <Action
              key="end"
              label={'Delete'}
              title={`Delete cluster ${name} with its ranks and nodes`}
              kind="warn"
              refusal={why.remove}
              isBusy={isBusy}
              act={remove}
            />
          )}
        </div>
      )}
    </form>
  );
}

interface IEditing {
  draft: IDraft;
  model: ClustersModel;
  /** Keep an edit; null to let go of it. */
  edit: (draft: IDraft | null) => void;
}

/** When the run moves to the ranks of the new size. */
function MoveTime(props: {
  at: ResizeAt;
  times: ResizeAt[];
  choose: (at: ResizeAt) => void;
}): JSX.Element {
  const { at, times, choose } = props;
  const words: Record<ResizeAt, string> = {
    step: 'at the next iteration',
    epoch: 'at the end of the epoch',
    end: 'after the run'
  };
  return (
    <label className="wb-size">
      {'The run moves'}
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
function SizeBox(props: IEditing & { isWrong: boolean }): JSX.Element {
  const { draft, model, edit, isWrong } = props;
  return (
    <label className="wb-size">
      {'Ranks'}
      <input
        type="number"
        min={1}
        max={most(draft.oversubscribe, model.bounds)}
        value={draft.text}
        aria-invalid={isWrong}
        title={`From 1 to ${most(draft.oversubscribe, model.bounds)}; this machine has ${model.bounds.slots} slots. Escape undoes an edit.`}
        onChange={event => edit({ ...draft, text: event.target.value })}
        onKeyDown={event => event.key === 'Escape' && edit(null)}
      />
    </label>
  );
}

/** Whether ranks may share cores. */
function Oversubscribe(props: IEditing): JSX.Element {
  const { draft, model, edit } = props;
  return (
    <label className="wb-oversubscribe">
      <input
        type="checkbox"
        checked={draft.oversubscribe}
        onChange={event =>
          edit({ ...draft, oversubscribe: event.target.checked })
        }
      />
      {`Allow more ranks than the ${count(model.bounds.slots, 'slot')}`}
    </label>
  );
}

/** The number of nodes. */
function NodesBox(props: {
  draft: IDraft;
  isWrong: boolean;
  edit: (draft: IDraft | null) => void;
}): JSX.Element {
  const { draft, edit, isWrong } = props;
  return (
    <label className="wb-size">
      {'Nodes'}
      <input
        type="number"
        min={0}
        max={MAX_NODES}
        value={draft.text}
        aria-invalid={isWrong}
        title={`From 0 to ${MAX_NODES}; 0 releases all nodes and keeps the cluster's definition. Escape undoes an edit.`}
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
}): JSX.Element {
  const { cluster, model } = props;
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
        {'Extend by, h'}
        <input
          type="number"
          min={0}
          step="any"
          value={text}
          aria-invalid={isWrong}
          title={'Hours to add to the time to live'}
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
        label={'Extend'}
        title={'Extend the time to live'}
        refusal={isWrong ? 'The number is out of range.' : ''}
        isBusy={model.isBusy(cluster.name)}
        act={extend}
      />
    </div>
  );
}
