import {
  against,
  budget,
  isOver,
  lastValue,
  moment,
  nodesAgainst,
  nodesSummary,
  providerWord,
  price,
  ranksWord,
  spent,
  standing,
  statusText,
  timeToLive,
  value,
  whatGoes
} from '../words';
import { aCluster, aDownCluster, aFleet, aRun } from './samples';

describe('a cluster in words', () => {
  it('says how many there are against how many were asked for', () => {
    expect(against(2, 4)).toBe('2 of 4');
    expect(against(2, 1)).toBe('2, 1 requested');
    expect(against(0, 0)).toBe('–');
    expect(ranksWord(2, 4)).toBe('2 of 4 ranks');
    expect(ranksWord(1, 0)).toBe('1 rank, 0 requested');
  });

  it('says between which bounds it may grow by itself', () => {
    const grows = aFleet({ nodes_asked: 2, min_nodes: 1, max_nodes: 4 });

    expect(nodesAgainst(grows)).toBe('1 of 1 to 4');
    expect(nodesAgainst(aFleet())).toBe('1 of 2');
  });

  it('is over when nobody wants its nodes and none is left', () => {
    expect(isOver(aFleet())).toBe(false);
    expect(isOver(aFleet({ is_wanted: false }))).toBe(false);
    expect(isOver(aFleet({ is_wanted: false, nodes: [] }))).toBe(true);
    expect(isOver(aDownCluster())).toBe(false);
  });

  it('says nothing of money and time on this machine', () => {
    const cluster = aCluster();

    expect(price(cluster)).toBe('');
    expect(spent(cluster)).toBe('');
    expect(budget(cluster)).toBe('');
    expect(timeToLive(cluster, 0)).toBe('');
  });

  it('says what traffic has cost from a cent on, as a part of the rest', () => {
    const cluster = aCluster({ price: 3.6, spent: 1.5, traffic: 0.9 });

    expect(spent(cluster)).toBe(
      '$1.50 (of which about $0.90 for traffic, estimated)'
    );
    expect(spent({ ...cluster, traffic: 0.004 })).toBe('$1.50');
  });

  it('says what is charged in place of money', () => {
    const cluster = aCluster({
      price: 16,
      spent: 4.25,
      budget: 200,
      unit: 'core-hours'
    });

    expect(price(cluster)).toBe('16 core-hours/h');
    expect(spent(cluster)).toBe('4.25 core-hours');
    expect(budget(cluster)).toBe('196 core-hours of 200 core-hours left');
    expect(statusText([cluster])).not.toContain('/h');
  });

  it('has a price, a price so far and a time to live elsewhere', () => {
    const cluster = aCluster({ price: 3.6, spent: 0.455, expires: 5500 });

    expect(price(cluster)).toBe('$3.60/h');
    expect(spent(cluster)).toBe('$0.46');
    expect(timeToLive(cluster, 100)).toBe('1 h 30 min');
    expect(timeToLive(cluster, 5000)).toBe('8 min');
    expect(timeToLive(cluster, 6000)).toBe('0 s');
  });
});

describe('a run in words', () => {
  it('stands with its share while it goes on', () => {
    expect(standing(aRun())).toBe('running, 42 %');
    expect(standing(aRun({ fraction: null }))).toBe('running');
  });

  it('is stopping once somebody asked', () => {
    expect(standing(aRun({ is_stopping: true, fraction: null }))).toBe(
      'stopping…'
    );
  });

  it('has its main curve as last value, or none', () => {
    expect(lastValue(aRun())).toBe('0.5');
    expect(lastValue(aRun({ sparkline_name: '' }))).toBe('');
    expect(value(null)).toBe('nan');
    expect(value(undefined)).toBe('–');
  });

  it('was begun at a time today, and on a date before', () => {
    const noon = new Date(2025, 0, 5, 12, 30).getTime() / 1000;

    expect(moment(noon, noon + 60, 'en-GB')).toBe('12:30');
    expect(moment(noon, noon + 100_000, 'en-GB')).toBe('5 Jan');
  });
});

describe('the status bar', () => {
  it('is quiet where there is no cluster', () => {
    expect(statusText([])).toBe('no cluster');
    expect(statusText([aDownCluster()])).toBe('no cluster');
  });

  it('says how many ranks there are and how far the run is', () => {
    const cluster = aCluster({ runs: [aRun()] });

    expect(statusText([cluster])).toBe('2 ranks · digits 42 %');
  });

  it('says how many ranks are still to come', () => {
    const cluster = aCluster({ ranks_asked: 4, state: 'resizing' });

    expect(statusText([cluster])).toBe('2 of 4 ranks');
  });

  it('adds clusters and prices up, and counts the runs that it does not name', () => {
    const runs = [
      aRun({ state: 'queued', name: 'next' }),
      aRun({ name: 'now' })
    ];
    const clusters = [aCluster({ price: 1.2 }), aCluster({ price: 2.4, runs })];

    expect(statusText(clusters)).toBe(
      '4 ranks · $3.60/h · now 42 % · 1 more run'
    );
  });

  it('says that a cluster failed', () => {
    expect(statusText([aCluster({ state: 'failed' })])).toBe('cluster failed');
  });
});

describe('clusters of nodes', () => {
  it('are told by place, money and states of their nodes', () => {
    const fleet = aFleet({ spent: 0.004, price: 12 });

    expect(providerWord(fleet)).toBe('rehearsal (nothing is bought)');
    expect(price(fleet)).toBe('$12.00/h');
    expect(spent(fleet)).toBe('$0.004');
    expect(nodesSummary(fleet)).toBe('1 booting, 1 joined');
    expect(statusText([fleet])).toBe('1 node · 1 rank · $12.00/h');
  });

  it('say what deleting them deletes and what that cost', () => {
    expect(whatGoes(aFleet())).toBe(
      '2 nodes and all that belongs to them are deleted. Price now: $0.40/h; so far: $0.10.'
    );
    expect(whatGoes(aFleet({ provider: 'hosts', lists_hosts: true }))).toBe(
      'The hosts themselves keep running.'
    );
    expect(whatGoes(aCluster())).toBe('');
  });
});
