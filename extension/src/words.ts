/**
 * Put the states and amounts of clusters and runs into words.
 */
import type {
  ClusterState,
  ICluster,
  IListedRun,
  INode,
  IRun,
  IPurchase,
  NodeState
} from './protocol';
import { count, duration, money, number, percent } from './run/numbers';
import { stateWord } from './run/phrases';

/** Dollars; any run's log costs less. */
const TRAFFIC_SAID = 0.005;

/** Shown in place of a missing value. */
export const NOTHING = '–';

/** A cluster's state in one word. */
export function clusterWord(state: ClusterState): string {
  const words: { [state in ClusterState]: string } = {
    down: 'down',
    starting: 'starting',
    ready: 'ready',
    paused: 'paused, without nodes',
    resizing: 'resizing',
    stopping: 'stopping',
    failed: 'failed'
  };
  return words[state] ?? state;
}

/** A run's state, and its progress while it is active. */
export function standing(run: IRun): string {
  const word = stateWord(run);
  return run.is_ended || run.fraction === null
    ? word
    : `${word}, ${percent(run.fraction)}`;
}

/** How many there are against how many were asked for, as in `2 of 4`. */
export function against(actual: number, asked: number): string {
  if (actual > asked) {
    return `${actual}, ${asked} requested`;
  }
  return asked ? `${actual} of ${asked}` : NOTHING;
}

/** The nodes there are against those that there are to be; one that may grow has bounds. */
export function nodesAgainst(cluster: ICluster): string {
  const { nodes_actual, nodes_asked, min_nodes, max_nodes } = cluster;
  if (!nodes_asked || !max_nodes) {
    return against(nodes_actual, nodes_asked);
  }
  const least = Math.min(min_nodes, nodes_asked);
  return `${nodes_actual} of ${least} to ${max_nodes}`;
}

/** The same with the thing that is counted, as in `2 of 4 ranks`. */
export function ranksWord(actual: number, asked: number): string {
  return actual > asked
    ? `${count(actual, 'rank')}, ${asked} requested`
    : `${actual} of ${count(asked, 'rank')}`;
}

/** A number of ranks, or of nodes. */
export function sizeWord(amount: number, isOfNodes: boolean): string {
  return count(amount, isOfNodes ? 'node' : 'rank');
}

/** The provider of a cluster's nodes. */
export function providerWord(cluster: ICluster): string {
  return cluster.provider_label;
}

/** An amount of money, or of what is charged in its place. */
export function dollars(amount: number, unit = ''): string {
  return unit ? `${number(amount, 3)} ${unit}` : `$${money(amount)}`;
}

/** A price of an hour. */
export function hourly(price: number, unit = ''): string {
  return `${dollars(price, unit)}/h`;
}

/** What a cluster costs an hour; nothing where it is free. */
export function price(cluster: ICluster): string {
  return cluster.price === null ? '' : hourly(cluster.price, cluster.unit);
}

/** What a cluster has cost so far, and traffic's part of it; nothing where it is free. */
export function spent(cluster: ICluster): string {
  if (cluster.spent === null) {
    return '';
  }
  const whole = dollars(cluster.spent, cluster.unit);
  return (cluster.traffic ?? 0) < TRAFFIC_SAID
    ? whole
    : `${whole} (of which about ${dollars(cluster.traffic ?? 0)} for traffic, estimated)`;
}

/** Whether its nodes are released, and none is left that could cost anything. */
export function isOver(cluster: ICluster): boolean {
  return cluster.has_nodes && !cluster.is_wanted && !cluster.nodes.length;
}

/** What is left of a cluster's budget; nothing where it has none. */
export function budget(cluster: ICluster): string {
  const whole = cluster.budget;
  if (whole === null) {
    return '';
  }
  const left = Math.max(0, whole - (cluster.spent ?? 0));
  return `${dollars(left, cluster.unit)} of ${dollars(whole, cluster.unit)} left`;
}

/** Which nodes are deleted with a cluster, and what they cost; nothing for this machine. */
export function whatGoes(cluster: ICluster): string {
  if (!cluster.has_nodes) {
    return '';
  }
  if (cluster.lists_hosts) {
    return 'The hosts themselves keep running.';
  }
  const number = Object.values(cluster.node_states).reduce((n, m) => n + m, 0);
  const deleted =
    number === 1
      ? `${number} node and all that belongs to it is deleted.`
      : `${number} nodes and all that belongs to them are deleted.`;
  const cost = `Price now: ${price(cluster)}; so far: ${spent(cluster)}.`;
  return `${deleted} ${cost}`;
}

/** A node's state in one word. */
export function nodeWord(node: Pick<INode, 'state' | 'failed'>): string {
  const words: { [state in NodeState]: string } = {
    asked: 'asked',
    booting: 'booting',
    verified: 'verified',
    'data ready': 'data ready',
    joined: 'joined',
    leaving: 'leaving',
    gone: 'gone'
  };
  return node.failed ? 'failed' : (words[node.state] ?? node.state);
}

/** How many nodes are in which state, as in `2 joined, 1 booting`. */
export function nodesSummary(cluster: ICluster): string {
  return Object.entries(cluster.node_states)
    .map(([state, number]) => {
      const failed = state === 'failed';
      const word = nodeWord({ state: state as NodeState, failed });
      return `${number} ${word}`;
    })
    .join(', ');
}

/** What became of one way to get nodes. */
export function outcomeWord(purchase: IPurchase): string {
  const words: { [outcome in IPurchase['outcome']]: string } = {
    written: 'being tried',
    bought: 'granted',
    refused: 'refused',
    lost: 'no nodes obtained'
  };
  return words[purchase.outcome] ?? purchase.outcome;
}

/**
 * The remaining time to live of a cluster; empty if it never expires.
 *
 * @param now - epoch seconds
 */
export function timeToLive(cluster: ICluster, now: number): string {
  if (cluster.expires === null) {
    return '';
  }
  const minutes = Math.max(0, Math.round((cluster.expires - now) / 60));
  return duration(60 * minutes);
}

/** A reported value; it is null where it was not finite, and missing where it was not reported. */
export function value(reported: number | null | undefined): string {
  return reported === undefined ? NOTHING : number(reported ?? NaN);
}

/** The last value of a run's main curve, or nothing when it has none. */
export function lastValue(run: IListedRun): string {
  return run.sparkline_name ? value(run.values[run.sparkline_name]) : '';
}

/**
 * A moment of today as its time, and any other as its date.
 *
 * @param seconds - epoch seconds
 * @param now - epoch seconds
 */
export function moment(seconds: number, now: number, locale?: string): string {
  const date = new Date(1000 * seconds);
  return date.toDateString() === new Date(1000 * now).toDateString()
    ? date.toLocaleTimeString(locale, {
        hour: '2-digit',
        minute: '2-digit',
        hourCycle: 'h23'
      })
    : date.toLocaleDateString(locale, { month: 'short', day: 'numeric' });
}

/** Clusters that are there or should be. */
export function alive(clusters: readonly ICluster[]): ICluster[] {
  return clusters.filter(one => one.is_wanted || one.state !== 'down');
}

/** The active measurement of a cluster's links, if any. */
export function measuring(cluster: ICluster): IRun | null {
  return cluster.runs.find(run => run.kind === 'measurement') ?? null;
}

/** Whether a cluster's links can be measured now. */
export function canMeasure(cluster: ICluster | null): boolean {
  return (
    !!cluster?.is_wanted &&
    !['paused', 'failed', 'stopping'].includes(cluster.state) &&
    !measuring(cluster)
  );
}

/** What the status bar says, as in `2 ranks · digits 42 %`. */
export function statusText(clusters: readonly ICluster[]): string {
  const there = alive(clusters);
  if (!there.length) {
    return 'no cluster';
  }
  const runs = there.flatMap(one => one.runs).filter(run => !run.is_ended);
  const parts = [ranksOf(there)];
  const nodes = there
    .filter(one => one.has_nodes)
    .reduce((sum, one) => sum + one.nodes_actual, 0);
  if (nodes) {
    parts.unshift(count(nodes, 'node'));
  }
  const cost = there.reduce(
    (sum, one) => sum + ((!one.unit && one.price) || 0),
    0
  );
  if (cost) {
    parts.push(hourly(cost));
  }
  const first = runs.find(run => run.state === 'running') ?? runs[0];
  if (first) {
    const said =
      first.state === 'running' && first.fraction !== null
        ? percent(first.fraction)
        : stateWord(first);
    parts.push(`${first.name} ${said}`);
  }
  if (runs.length > 1) {
    parts.push(count(runs.length - 1, 'more run'));
  }
  return parts.join(' · ');
}

function ranksOf(there: ICluster[]): string {
  if (there.some(one => one.state === 'failed')) {
    return 'cluster failed';
  }
  const sum = (of: (one: ICluster) => number) =>
    there.reduce((n, one) => n + of(one), 0);
  const actual = sum(one => one.ranks_actual);
  const asked = sum(one => one.ranks_asked);
  return actual === asked ? count(actual, 'rank') : ranksWord(actual, asked);
}

/** What to do where the server runs without our part. */
export function noServer(): string {
  return 'This Jupyter server runs without the server extension of workbench. Install workbench where Jupyter runs, and start Jupyter again.';
}
