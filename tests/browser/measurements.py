"""What four nodes would measure: healthy ones, and later one that has lost half its bandwidth."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.core.performance.bandwidth import (
    RESULT_STREAM,
    BandwidthSurvey,
    Exchange,
    Measurement,
    Pair,
    Rate,
    measurement_json,
)
from workbench.core.run.rank_protocol import Batch, Chunk, Progress
from workbench.store import Store

NODES = tuple(f"node-{number}" for number in range(4))
RATED = 1.44e9 / 8  # bytes a second
STEPS = 20
_HALF = 0.47


def measurement(at: float, *, slow: str = "", nodes: tuple[str, ...] = NODES) -> Measurement:
    """Return what is measured at ``at``, in epoch seconds.

    Args:
        slow: The node whose links carry half of what those of the others do.
        nodes: Those that are measured.
    """

    def link(place: int, source: str, target: str) -> Pair:
        share = _HALF if slow in (source, target) else 1 - 0.01 * (place % 4)
        return Pair(source, target, (48 + place) * 1e-6, 0.96 * RATED * share)

    ends = [(a, b) for a in nodes for b in nodes if a != b]
    pairs = tuple(link(place, *both) for place, both in enumerate(ends))
    limit = min(pair.bandwidth for pair in pairs)
    exchanges = tuple(_exchanges("workbench", "ring", 0.97 * limit, 3e-4))
    exchanges += tuple(_exchanges("mpi", "", 0.5 * limit, 2e-4))
    rates = (
        *(Rate(node, "disk write", 310e6) for node in nodes),
        *(Rate(node, "disk read", 520e6) for node in nodes),
    )
    survey = BandwidthSurvey(at, nodes, pairs, exchanges, rating=RATED)
    return Measurement(survey, len(nodes), 62.0, rates)


def _exchanges(way: str, name: str, busbw: float, latency: float) -> Iterator[Exchange]:
    for power in range(10):
        nbytes = 1000 * 4**power
        share = 2 * (len(NODES) - 1) / len(NODES)
        yield Exchange(nbytes, latency + share * nbytes / busbw, len(NODES), way, name)


def put(store: Store, run: str, found: Measurement, sequence: int = 1) -> None:
    """Write what a run has found."""
    chunk = Chunk(RESULT_STREAM, found.survey.time, measurement_json(found))
    store.reports.add_batches(
        [Batch(run, 0, sequence, chunks=(chunk,), progress=Progress(STEPS, STEPS))]
    )
