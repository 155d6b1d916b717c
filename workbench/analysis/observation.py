"""Read the measured step times of a run, and the measured links between its nodes."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.core.performance.bandwidth import BandwidthSurvey
from workbench.core.performance.comparison import UNKNOWN_NOISE, noise_of
from workbench.core.performance.exchange_metrics import add_exchange
from workbench.core.performance.exchange_model import MEMORY
from workbench.core.performance.step_sampling import PASSING, part_seconds
from workbench.core.performance.what_if import ObservedRun, RankStep, split_waiting
from workbench.core.run.metrics import EXCHANGE_PREFIX, STEP_PREFIX
from workbench.core.run.model import Run
from workbench.core.run.rank_protocol import HandwrittenLoop
from workbench.store import Store

_SPLIT = ("waiting", "moving")
# About a second of training: less than this is start-up.
LEAST_SECONDS = 1e-6
# Share of a model's gradients: a smaller allreduce is of something else.
LEAST_SHARE = 0.01


def observe_run(
    store: Store,
    run: Run,
    steps: Mapping[int, Mapping[str, float]],
    noise: float = UNKNOWN_NOISE,
) -> ObservedRun | None:
    """Return the inputs of the verdict; None while there are too few, and for a loop by hand.

    Args:
        noise: Relative variation of the step time.
    """
    ranks = {rank: parts for rank, parts in steps.items() if sum(parts.values()) > LEAST_SECONDS}
    if not ranks or len(ranks) < run.fact.ranks:
        return None
    exchanges = store.reports.read_measured(run.id, EXCHANGE_PREFIX)
    exchanges_ours = any(map(exchanges_gradients, exchanges.values()))
    passes = any(parts.get(PASSING) for parts in ranks.values())
    if not (exchanges_ours or passes) and store.events.newest(run.id, HandwrittenLoop) is not None:
        return None  # what the framework exchanges by itself is not known well enough to judge
    hosts = _hosts(store, run, ranks)
    reported = next(iter(exchanges.values()), {})
    nodes = len({one.get("leader", 0.0) for one in exchanges.values()}) or len({*hosts.values()})
    survey = survey_of(store, run, {*hosts.values()})
    seen = ObservedRun(
        ranks=split_waiting(_rank_step(rank, hosts[rank], parts) for rank, parts in ranks.items()),
        nbytes=gradient_bytes(reported),
        nodes=max(1, nodes),
        batch=max(1.0, reported.get("batch", 1.0)),
        exchanges=len(ranks) == 1 or exchanges_ours,
        messages=max(1, round(reported.get("calls") or reported.get("arrays", 1.0))),
        link=survey.link() if survey else None,
        memory=MEMORY,
        rating=survey.rating if survey else 0.0,
        noise=noise,
    )
    return add_exchange(seen, exchanges.values())


def step_noise(store: Store, run: Run) -> float:
    """Return the relative variation of the step time of ``run``."""
    # The first value includes start-up; waiting and moving are also part of communication.
    return noise_of(
        [
            sum(seconds for name, seconds in parts.items() if name not in _SPLIT)
            for parts in reported[1:]
        ]
        for reported in store.reports.history(run.id, STEP_PREFIX).values()
    )


def batch_of(store: Store, run: Run) -> float:
    """Return the examples of all ranks in a step; 0 when unknown."""
    return sum(
        one.get("batch", 0.0)
        for one in store.reports.read_measured(run.id, EXCHANGE_PREFIX).values()
    )


def gradient_bytes(reported: Mapping[str, float]) -> float:
    """Return the bytes of gradients that a rank reports, exchanged or not."""
    return reported.get("nbytes") or reported.get("gradients", 0.0)


def exchanges_gradients(reported: Mapping[str, float]) -> bool:
    """Whether ranks exchange gradients, and not only an occasional loss."""
    return reported.get("nbytes", 0.0) > LEAST_SHARE * reported.get("gradients", 0.0)


def survey_of(store: Store, run: Run, hosts: set[str]) -> BandwidthSurvey | None:
    """Return the newest measurement between the nodes that ``run`` is on."""
    for found in store.surveys.of_cluster(run.wish.cluster):
        if hosts <= set(found.survey.nodes) and found.survey.pairs:
            return found.survey
    return store.surveys.network(run.wish.cluster, hosts)


def _hosts(store: Store, run: Run, ranks: Mapping[int, object]) -> dict[int, str]:
    """Return each rank's host; empty when the store no longer has it."""
    known = {r.rank: r.host for r in store.ranks(run.wish.cluster, run.fact.generation)}
    return {rank: known.get(rank, "") for rank in ranks}


def _rank_step(rank: int, host: str, parts: Mapping[str, float]) -> RankStep:
    waiting, moving = part_seconds(parts, _SPLIT)
    own = {name: parts.get(name, 0.0) for name in ("compute", "data", "other")}
    passing = parts.get(PASSING, 0.0)
    return RankStep(rank, host, waiting=waiting, moving=moving, passing=passing, **own)
