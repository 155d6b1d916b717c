"""Read what was measured of a run's steps, and between the nodes that it was on."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.core.anatomy import part_seconds
from workbench.core.bandwidth import Survey
from workbench.core.change import Observed, RankStep, told_apart
from workbench.core.exchange import MEMORY
from workbench.core.exchanged import exchanged
from workbench.core.metrics import EXCHANGE_PREFIX
from workbench.core.run import Run
from workbench.store import Store

_SPLIT = ("waiting", "moving")
# Of a second or so of training: what is less is all start.
LEAST_SECONDS = 1e-6


def observed_of(
    store: Store, run: Run, steps: Mapping[int, Mapping[str, float]]
) -> Observed | None:
    """Return what the verdict goes by; None while there is not enough of it."""
    ranks = {rank: parts for rank, parts in steps.items() if sum(parts.values()) > LEAST_SECONDS}
    if not ranks or len(ranks) < run.fact.ranks:
        return None
    exchanges = store.measured(run.id, EXCHANGE_PREFIX)
    hosts = _hosts(store, run, ranks)
    told = next(iter(exchanges.values()), {})
    nodes = len({one.get("leader", 0.0) for one in exchanges.values()}) or len({*hosts.values()})
    survey = survey_of(store, run, {*hosts.values()})
    seen = Observed(
        ranks=told_apart(_rank_step(rank, hosts[rank], parts) for rank, parts in ranks.items()),
        nbytes=gradient_bytes(told),
        nodes=max(1, nodes),
        batch=max(1.0, told.get("batch", 1.0)),
        messages=max(1, round(told.get("calls") or told.get("arrays", 1.0))),
        link=survey.link() if survey else None,
        memory=MEMORY,
        rating=survey.rating if survey else 0.0,
    )
    return exchanged(seen, exchanges.values())


def gradient_bytes(told: Mapping[str, float]) -> float:
    """Return the bytes of gradients that a rank tells of, exchanged or not."""
    return told.get("nbytes") or told.get("gradients", 0.0)


def survey_of(store: Store, run: Run, hosts: set[str]) -> Survey | None:
    """Return the newest measurement between the nodes that ``run`` is on."""
    for found in store.surveys(run.wish.cluster):
        if hosts <= set(found.survey.nodes) and found.survey.pairs:
            return found.survey
    return None


def _hosts(store: Store, run: Run, ranks: Mapping[int, object]) -> dict[int, str]:
    """Return each rank's host; empty where the store has forgotten it."""
    known = {r.rank: r.host for r in store.ranks(run.wish.cluster, run.fact.generation)}
    return {rank: known.get(rank, "") for rank in ranks}


def _rank_step(rank: int, host: str, parts: Mapping[str, float]) -> RankStep:
    waiting, moving = part_seconds(parts, _SPLIT)
    own = {name: parts.get(name, 0.0) for name in ("compute", "data", "other")}
    return RankStep(rank, host, waiting=waiting, moving=moving, **own)
