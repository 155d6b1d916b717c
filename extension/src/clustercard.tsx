/**
 * The card of one cluster: its desired and observed state, and its controls.
 */
import * as React from 'react';

import { Bandwidth } from './bandwidth';
import type { ClustersModel } from './clusters';
import type { ClusterState, ICluster } from './protocol';
import { Controls } from './controls';
import { NodeList, Purchases } from './nodelist';
import { said } from './run/phrases';
import type { ITrans } from './run/trans';
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

/** Actions on a cluster that the model does not do. */
export interface IClusterActions {
  /** Delete a cluster after confirmation. */
  remove: (name: string) => void;
  /** Measure its links, and show the progress. */
  measure: (name: string) => void;
  /** Show a run, by its id. */
  open: (id: string) => void;
}

/** One cluster. */
export function ClusterCard(props: {
  cluster: ICluster;
  model: ClustersModel;
  trans: ITrans;
  actions: IClusterActions;
}): JSX.Element {
  const { cluster, model, trans, actions } = props;
  const { name } = cluster;
  const id = React.useId();
  const refusal = model.refusal(name);
  return (
    <section className="wb-cluster" aria-labelledby={id}>
      <header className="wb-cluster-header">
        <h4 id={id}>{name}</h4>
        <Badge state={cluster.state} trans={trans} />
      </header>
      <Facts cluster={cluster} trans={trans} />
      {cluster.message && (
        <p className="wb-cluster-message">{cluster.message}</p>
      )}
      {cluster.nodes.map(
        ({ id: node, notice }) =>
          notice && (
            <p key={node} className="wb-cluster-message wb-notice">
              {said(notice, trans)}
            </p>
          )
      )}
      <Purchases purchases={cluster.purchases} trans={trans} />
      <NodeList cluster={cluster} trans={trans} />
      <Controls
        {...{ cluster, model, trans }}
        remove={() => actions.remove(name)}
      />
      {(!isDeleted(cluster) || cluster.measured) && (
        <Bandwidth
          {...{ cluster, model, trans }}
          measure={() => actions.measure(name)}
          open={actions.open}
        />
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
function money(cluster: ICluster, trans: ITrans): string[][] {
  return [
    [trans.__('Price'), price(cluster, trans)],
    [trans.__('So far'), spent(cluster, trans)],
    [trans.__('Budget'), budget(cluster, trans)],
    [trans.__('Time to live'), timeToLive(cluster, Date.now() / 1000, trans)]
  ].filter(([, amount]) => amount);
}

function Facts(props: { cluster: ICluster; trans: ITrans }): JSX.Element {
  const { cluster, trans } = props;
  const sizes = [
    [
      trans.__('Ranks'),
      against(cluster.ranks_actual, cluster.ranks_asked, trans)
    ],
    ...(hasNodes(cluster)
      ? [[trans.__('Nodes'), nodesAgainst(cluster, trans)]]
      : [])
  ];
  const rows = [
    ...(isDeleted(cluster) ? [] : sizes),
    [trans.__('Provider'), providerWord(cluster, trans)],
    ...(isOver(cluster) ? [] : money(cluster, trans))
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
