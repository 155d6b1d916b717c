/**
 * The list of a cluster's nodes, and of the purchases of missing ones.
 */
import * as React from 'react';

import type { ICluster, INode, IPurchase } from './protocol';
import { said } from './run/phrases';
import type { ITrans } from './run/trans';
import { dollars, hourly, nodesSummary, nodeWord, outcomeWord } from './words';

/** The nodes by state; their list can be folded, and stays so. */
export function NodeList(props: {
  cluster: ICluster;
  trans: ITrans;
}): JSX.Element | null {
  const { cluster, trans } = props;
  if (!cluster.nodes.length) {
    return null;
  }
  const total = Object.values(cluster.node_states).reduce((n, m) => n + m, 0);
  const hidden = total - cluster.nodes.length;
  return (
    <details className="wb-nodes">
      <summary>{nodesSummary(cluster, trans)}</summary>
      <ul>
        {cluster.nodes.map(node => (
          <NodeLine key={node.id} node={node} trans={trans} />
        ))}
      </ul>
      {hidden > 0 && (
        <p>
          {trans._n(
            '%1 more node is not listed',
            '%1 more nodes are not listed',
            hidden
          )}
        </p>
      )}
    </details>
  );
}

function NodeLine(props: { node: INode; trans: ITrans }): JSX.Element {
  const { node, trans } = props;
  const where = [node.type, node.zone].filter(Boolean).join(', ');
  const facts = [
    node.address,
    where,
    node.slots ? trans._n('%1 slot', '%1 slots', node.slots) : '',
    node.price ? hourly(node.price, trans) : '',
    node.spent ? trans.__('%1 so far', dollars(node.spent, trans)) : ''
  ];
  return (
    <li className="wb-node" data-state={node.failed ? 'failed' : node.state}>
      <span className="wb-node-name">
        {node.head ? trans.__('%1 (head)', node.id) : node.id}
      </span>{' '}
      <span className="wb-node-state">{nodeWord(node, trans)}</span>
      <span className="wb-node-facts">{facts.filter(Boolean).join(' · ')}</span>
      {(node.notice || node.message) && (
        <span className="wb-node-facts">
          {node.notice ? said(node.notice, trans) : node.message}
        </span>
      )}
    </li>
  );
}

/** What was tried, in the order in which it was tried. */
export function Purchases(props: {
  purchases: IPurchase[];
  trans: ITrans;
}): JSX.Element | null {
  const { purchases, trans } = props;
  if (!purchases.length) {
    return null;
  }
  return (
    <ol className="wb-purchases" aria-label={trans.__('Purchases of nodes')}>
      {purchases.map((purchase, place) => (
        <li key={place} data-outcome={purchase.outcome}>
          {trans.__('%1: %2', purchase.what, outcomeWord(purchase, trans))}
          {purchase.message && (
            <span className="wb-node-facts">{purchase.message}</span>
          )}
        </li>
      ))}
    </ol>
  );
}
