"""Say what the network between a cluster's nodes is, and what the last run would have of it."""

from __future__ import annotations

from dataclasses import replace

from workbench.analysis.predictions import find_observed_run, work_of
from workbench.core.fleet.model import NodeState
from workbench.core.performance.bandwidth import BandwidthSurvey, describe_links
from workbench.core.performance.exchange_model import CARRIED, Codec
from workbench.core.performance.step_model import Step, WorldShape, step
from workbench.core.performance.step_verdict import BEARABLE, FAST_GBITS, GIVES
from workbench.core.performance.what_if import ObservedRun
from workbench.core.run.model import RunKind
from workbench.core.units import duration, size_text
from workbench.store import Store

# Newer runs that exchange nothing, such as a cell that prints, are passed over.
RUNS_LOOKED_AT = 5
COMPLETE = (NodeState.READY, NodeState.JOINED)


def network_sentence(store: Store, cluster: str) -> str:
    """Return what was measured between the nodes that have ranks; empty if nothing was.

    Where it is too slow for what the last measured run of the cluster sends, that follows with the
    remedy.
    """
    fact = store.cluster_fact(cluster)
    hosts = {rank.host for rank in store.ranks(cluster, fact.generation)} if fact.ranks else set()
    survey = store.surveys.network(cluster, hosts)
    nodes, wish = len(hosts), store.cluster_wish(cluster)
    if not hosts and wish and wish.fleet.place.lists_hosts:  # between two worlds
        nodes = len([node for node in store.fleets.nodes(cluster) if node.state in COMPLETE])
    if survey is None or not 2 <= nodes <= len(survey.nodes):
        return ""
    said = f"Network {describe_links(survey)}."
    return " ".join(filter(None, (said, _judge(store, cluster, survey, nodes))))


def _judge(store: Store, cluster: str, survey: BandwidthSurvey, nodes: int) -> str:
    for run in store.runs(cluster, limit=RUNS_LOOKED_AT):
        observed = find_observed_run(store, run) if run.wish.kind is not RunKind.SETUP else None
        if observed and observed.nbytes:
            return _name_remedy(run.wish.name, observed, survey, nodes)
    return ""


def _name_remedy(name: str, seen: ObservedRun, survey: BandwidthSurvey, nodes: int) -> str:
    """Return why a run's exchange takes too much of a step, with the remedy; or empty."""
    link = survey.link()
    assert link is not None
    work, shape = work_of(seen), WorldShape(nodes, link, seen.crowd, seen.memory)
    now = step(work, shape, coding=seen.coding)
    fast = replace(link, bandwidth=CARRIED * FAST_GBITS * 1e9 / 8)
    better = step(work, replace(shape, link=fast), coding=seen.coding)
    if _is_bearable(now) or now.total < GIVES * better.total:
        return ""
    # Codecs are in the order of what they take away.
    tried = {one.codec: step(work, shape, coding=one) for one in seen.codings}
    enough = (one for one in tried if _is_bearable(tried[one]))
    codec = next(enough, min(tried, key=lambda one: tried[one].total))
    remedy = f"Take larger batches; at {FAST_GBITS:g} Gbit/s it takes {duration(better.total)}."
    if codec is not Codec.NONE and GIVES * tried[codec].total < now.total:
        remedy = f"With `--compress {codec}` it would take {duration(tried[codec].total)}."
    return (
        f"That is slow for run {name}: of a step of {duration(now.total)} on {nodes} nodes, "
        f"{size_text(seen.nbytes * seen.coding.ratio)} of gradients take {duration(_lost(now))}. "
        f"{remedy}"
    )


def _lost(one: Step) -> float:
    return one.exposed + one.coding


def _is_bearable(one: Step) -> bool:
    return _lost(one) <= BEARABLE * one.total
