/**
 * The card of one cluster: its desired and observed state, and its controls.
 */
import * as React from 'react';

import { Action } from './action';
import { Bandwidth } from './bandwidth';
import type { ClustersModel } from './clusters';
import type { ClusterState, ICluster } from './protocol';
import { Controls } from './controls';
import { NodeList, Purchases } from './nodelist';
import { hasNodes, isDeleted } from './sizing';
import {
  against,
  budget,
  clusterWord,
  isOver,
  nodesAgainst,
  providerWord,
  price,
  spent,
  timeToLive
} from './words';

/** Shapes beside the words, so that no state is shown by colour alone. */
const SHAPES: { [state in ClusterState]: JSX.Element } = {
  down: <circle cx="5" cy="5" r="3.5" fill="none" />,
  starting: <path d="M5 1.5a3.5 3.5 0 0 1 0 7z" />,
  paused: <path d="M3.5 3v4M6.5 3v4" />,
  ready: <circle cx="5" cy="5" r="3.5" />,
  resizing: <path d="M5 1.5a3.5 3.5 0 0 1 0 7z" />,
  stopping: <path d="M5 1.5a3.5 3.5 0 0 0 0 7z" />,
  failed: <path d="M2 2l6 6M8 2l-6 6" />
};

/** A cluster's state as a word with an icon. */
export function Badge(props: { state: ClusterState }): JSX.Element {
  const { state } = props;
  return (
    <span className="wb-cluster-state" data-state={state}>
      <svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true">
        {SHAPES[state]}
        <circle cx="5" cy="5" r="3.5" fill="none" />
      </svg>
      {clusterWord(state)}
    </span>
  );
}

/** Actions on a cluster that the model does not do. */
export interface IClusterActions {
  /** Delete a cluster after confirmation. */
  remove: (name: string) => void;
  /** Measure its links, and show the progress; absent where no run can be shown. */
  measure?: (name: string) => void;
  /** Show a run, by its id. */
  open?: (id: string) => void;
}

/** One cluster. */
export function ClusterCard(props: {
  cluster: ICluster;
  model: ClustersModel;
  actions: IClusterActions;
  title?: string;
}): JSX.Element {
  const { cluster, model, actions, title } = props;
  const { measure, open } = actions;
  const { name } = cluster;
  const id = React.useId();
  const [said, refusal] = [model.said(name), model.refusal(name)];
  return (
    <section className="wb-cluster" aria-labelledby={id}>
      <header className="wb-cluster-header">
        <h4 id={id}>{title ?? name}</h4>
        <Badge state={cluster.state} />
      </header>
      <Facts cluster={cluster} />
      {cluster.message && (
        <p className="wb-cluster-message">{cluster.message}</p>
      )}
      {cluster.releases && (
        <Action
          label={'Keep nodes'}
          title={`Keep the nodes of cluster ${name}, which has nothing to do`}
          isBusy={model.isBusy(name)}
          act={() => void model.keep(name)}
        />
      )}
      {cluster.nodes.map(
        ({ id: node, notice }) =>
          notice && (
            <p key={node} className="wb-cluster-message wb-notice">
              {notice}
            </p>
          )
      )}
      <Purchases purchases={cluster.purchases} />
      <NodeList cluster={cluster} />
      <Controls {...{ cluster, model }} remove={() => actions.remove(name)} />
      {measure && open && (!isDeleted(cluster) || cluster.measured) && (
        <Bandwidth
          {...{ cluster, model, open }}
          measure={() => measure(name)}
        />
      )}
      {said && (
        <p className="wb-said" role="status">
          {said}
        </p>
      )}
      {refusal && (
        <p className="wb-refusal" role="alert">
          {refusal}
        </p>
      )}
    </section>
  );
}

/** Its price and time to live; empty if it is free and never expires. */
function money(cluster: ICluster): string[][] {
  return [
    ['Price', price(cluster)],
    ['So far', spent(cluster)],
    ['Budget', budget(cluster)],
    ['Time to live', timeToLive(cluster, Date.now() / 1000)]
  ].filter(([, amount]) => amount);
}

function Facts(props: { cluster: ICluster }): JSX.Element | null {
  const { cluster } = props;
  const sizes = [
    ['Ranks', against(cluster.ranks_actual, cluster.ranks_asked)],
    ...(hasNodes(cluster) ? [['Nodes', nodesAgainst(cluster)]] : [])
  ];
  const rows = [
    ...(isDeleted(cluster)
      ? []
      : [...sizes, ['Provider', providerWord(cluster)]]),
    ...(isOver(cluster) ? [] : money(cluster))
  ];
  if (!rows.length) {
    return null;
  }
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
