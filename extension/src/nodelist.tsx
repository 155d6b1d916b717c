/**
 * The list of a cluster's nodes, and of the purchases of missing ones.
 */
import * as React from 'react';

import type { ICluster, INode, IPurchase } from './protocol';
import { count } from './run/numbers';
import { dollars, hourly, nodesSummary, nodeWord, outcomeWord } from './words';

/** The nodes by state; their list can be folded, and stays so. */
export function NodeList(props: { cluster: ICluster }): JSX.Element | null {
  const { cluster } = props;
  if (!cluster.nodes.length) {
    return null;
  }
  const total = Object.values(cluster.node_states).reduce((n, m) => n + m, 0);
  const hidden = total - cluster.nodes.length;
  return (
    <details className="wb-nodes">
      <summary>{nodesSummary(cluster)}</summary>
      <ul>
        {cluster.nodes.map(node => (
          <NodeLine key={node.id} node={node} unit={cluster.unit} />
        ))}
      </ul>
      {hidden > 0 && (
        <p>
          {hidden === 1
            ? `${hidden} more node is not listed`
            : `${hidden} more nodes are not listed`}
        </p>
      )}
    </details>
  );
}

function NodeLine(props: { node: INode; unit?: string }): JSX.Element {
  const { node, unit } = props;
  const where = [node.type, node.zone].filter(Boolean).join(', ');
  const facts = [
    node.address,
    where,
    node.slots ? count(node.slots, 'slot') : '',
    node.price ? hourly(node.price, unit) : '',
    node.spent ? `${dollars(node.spent, unit)} so far` : ''
  ];
  return (
    <li className="wb-node" data-state={node.failed ? 'failed' : node.state}>
      <span className="wb-node-name">
        {node.head ? `${node.id} (head)` : node.id}
      </span>{' '}
      <span className="wb-node-state">{nodeWord(node)}</span>
      <span className="wb-node-facts">{facts.filter(Boolean).join(' · ')}</span>
      {(node.notice || node.message) && (
        <span className="wb-node-facts">{node.notice || node.message}</span>
      )}
    </li>
  );
}

/** What was tried, in the order in which it was tried. */
export function Purchases(props: {
  purchases: IPurchase[];
}): JSX.Element | null {
  const { purchases } = props;
  if (!purchases.length) {
    return null;
  }
  return (
    <ol className="wb-purchases" aria-label={'Purchases of nodes'}>
      {purchases.map((purchase, place) => (
        <li key={place} data-outcome={purchase.outcome}>
          {`${purchase.what}: ${outcomeWord(purchase)}`}
          {purchase.message && (
            <span className="wb-node-facts">{purchase.message}</span>
          )}
        </li>
      ))}
    </ol>
  );
}
