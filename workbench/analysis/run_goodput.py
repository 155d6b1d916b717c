"""Read what the paid time of a run became: its attempts, their points, and its nodes' prices."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.core.fleet.cost import charge
from workbench.core.run.goodput import Goodput, Stretch, goodput, sentence
from workbench.core.run.model import Run
from workbench.core.run.resumption import is_resumable
from workbench.store import Store


def goodput_of(store: Store, run: Run, now: float) -> Goodput | None:
    """Return the goodput of a run until its end, or until now; None before its first step.

    Args:
        now: Epoch seconds.
    """
    spans = [*_spans(store, run, now)]
    if not spans or not store.first_point(run.id, 0):
        return None
    begin, end = min(start for start, _, _ in spans), max(end for _, end, _ in spans)
    capacity = cost = 0.0
    prices = store.prices(run.wish.cluster)
    for node in store.nodes(run.wish.cluster, gone=True):
        if segments := prices.get(node.id):
            since, until = max(begin, segments[0][0]), min(node.ended or end, end)
            capacity += node.slots * max(0.0, until - since)
            cost += charge(segments, since, until)
    return goodput((stretch for _, _, stretch in spans), capacity=capacity, cost=cost)


def goodput_sentences(store: Store, run: Run, now: float) -> tuple[str, ...]:
    """Return its sentence for a run that was paid, or that continued in another world.

    Args:
        now: Epoch seconds.
    """
    if not is_resumable(run.wish.kind):
        return ()
    if run.fact.attempt == 1 and not store.prices(run.wish.cluster):
        return ()
    found = goodput_of(store, run, now)
    if found is None or not (found.cost or run.fact.attempt > 1):
        return ()
    return (sentence(found),)


def _spans(store: Store, run: Run, now: float) -> Iterator[tuple[float, float, Stretch]]:
    """Yield the beginning and the end of each attempt that started, with what it became."""
    past, fact = store.attempts(run.id), run.fact
    last = [(fact.attempt, fact.started, fact.ended or now, fact.ranks, 0)]
    known = [(one.number, one.started, one.ended, one.ranks, one.last_point) for one in past]
    redone = store.redone_seconds(run.id)
    before, started_before, point_before = 0.0, -1.0, 0
    for number, started, ended, ranks, point in [*known, *last]:
        if not started:
            continue
        # An attempt that follows by itself keeps the time at which the run started.
        follows = started == started_before
        begin = before if follows else started
        end = ended or begin
        first = store.first_point(run.id, point_before)
        paused = max(0.0, (first or end) - begin)
        yield (
            begin,
            end,
            Stretch(
                ranks, max(0.0, end - begin), paused, redone.get(number, 0.0), begins=not follows
            ),
        )
        before, started_before, point_before = end, started, point
