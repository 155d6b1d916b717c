"""Read what the paid time of a run became: its attempts, their points, and its nodes' prices."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.core.fleet.cost import charge
from workbench.core.recovery.resumption import Attempt, is_resumable, offers_resume
from workbench.core.run.goodput import Goodput, Stretch, compute_goodput, sentence
from workbench.core.run.model import Run, RunState
from workbench.store import Store

_NEWEST = 2**63 - 1


def goodput_of(store: Store, run: Run, now: float) -> Goodput | None:
    """Return the goodput of a run until its end, or until now; None before its first step.

    Args:
        now: Epoch seconds.
    """
    spans = [*_spans(store, run, now)]
    if not spans or not store.attempts.first_point(run.id, 0):
        return None
    begin, end = min(start for start, _, _ in spans), max(end for _, end, _ in spans)
    capacity = cost = 0.0
    prices = store.fleets.prices(run.wish.cluster)
    for node in store.fleets.nodes(run.wish.cluster, gone=True):
        if segments := prices.get(node.id):
            since, until = max(begin, segments[0][0]), min(node.ended or end, end)
            capacity += node.slots * max(0.0, until - since)
            cost += charge(segments, since, until)
    return compute_goodput((stretch for _, _, stretch in spans), capacity=capacity, cost=cost)


def goodput_sentences(store: Store, run: Run, now: float) -> tuple[str, ...]:
    """Return its sentence for a run that was paid, or that continued in another world.

    Args:
        now: Epoch seconds.
    """
    if not is_resumable(run.wish.kind):
        return ()
    if run.fact.attempt == 1 and not store.fleets.prices(run.wish.cluster):
        return ()
    found = goodput_of(store, run, now)
    if found is None or not (found.cost or run.fact.attempt > 1):
        return ()
    return (sentence(found),)


def _spans(store: Store, run: Run, now: float) -> Iterator[tuple[float, float, Stretch]]:
    """Yield the beginning and the end of each attempt that started, with what it became."""
    fact = run.fact
    present = Attempt(
        fact.attempt, fact.generation, fact.ranks, fact.started, fact.ended or now, fact.state,
        fact.message, last_point=_NEWEST,
    )  # fmt: skip
    redone = store.attempts.redone_seconds(run.id)
    before, started_before, point_before = 0.0, -1.0, 0
    for one in (*store.attempts.past(run.id), present):
        if not one.started:
            continue
        # An attempt that follows by itself keeps the time at which the run started.
        follows = one.started == started_before
        begin = before if follows else one.started
        end = one.ended or begin
        first = store.attempts.first_point(run.id, point_before)
        is_lost = first and one.state in (RunState.LOST, RunState.FAILED)
        stretch = Stretch(
            one.ranks,
            max(0.0, end - begin),
            max(0.0, (first or end) - begin),
            redone.get(one.number, 0.0),
            max(0.0, end - store.attempts.last_point(run.id, one.last_point)) if is_lost else 0.0,
            _read_unsaved_seconds(store, run) if one is present else 0.0,
            begins=not follows,
        )
        yield begin, end, stretch
        before, started_before, point_before = end, one.started, one.last_point


def _read_unsaved_seconds(store: Store, run: Run) -> float:
    """Return the seconds of steps that a run which can be resumed would do again."""
    snapshot = store.attempts.newest_snapshot(run.id)
    if not offers_resume(run, snapshot) or run.wish.restarts:
        return 0.0
    return store.attempts.unsaved_seconds(run.id, snapshot)
