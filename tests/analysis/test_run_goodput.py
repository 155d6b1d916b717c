"""The goodput of a run is read from its attempts, its points and the prices of its nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.batches import batch_of
from workbench.analysis.conclusion import ensure_conclusion, goodput_of, goodput_sentences
from workbench.core.fleet.model import Node, NodeState
from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import EventReport, Sample, SnapshotSaved, TrainingResumed
from workbench.store import Store

RUN = "run-1"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite3") as opened:
        opened.wish_run(RunWish(id=RUN, name="fit", kind=RunKind.CELL, source="pass"))
        yield opened


def report(store: Store, first: int, last: int, *, at: float, place: int = 1) -> None:
    """Let rank 0 do an iteration each second from ``at`` on."""
    samples = [Sample("loss", n, at + n - first, 1.0) for n in range(first, last + 1)]
    if first == 1:
        samples.append(EventReport(SnapshotSaved(4), at + 4))
    else:
        samples.insert(0, EventReport(TrainingResumed(first - 1), at - 0.5))
    store.reports.add_batches([batch_of(store.run(RUN).execution, 0, place, samples)])


def train(store: Store, *, noticed: float = 0.0) -> None:
    """Lose a world of two ranks after 10 iterations, and do the last 6 again on one.

    Args:
        noticed: Seconds from the last iteration until the loss was noticed.
    """
    running = RunState.RUNNING
    store.put_run_fact(RUN, ranks=2, generation=1, state=running, started=100.0, iteration=10)
    report(store, 1, 10, at=102.0)
    store.put_run_fact(RUN, state=RunState.LOST, ended=111.0 + noticed)
    store.attempts.continue_run(store.run(RUN).fact, "because")
    store.put_run_fact(RUN, ranks=1, generation=2, state=running)
    report(store, 5, 14, at=114.0)
    store.put_run_fact(RUN, state=RunState.FINISHED, ended=124.0, iteration=14)


def test_pauses_and_what_was_done_again_are_lost(store: Store) -> None:
    train(store)

    found = goodput_of(store, store.run(RUN), 124.0)

    assert found is not None
    assert found.paid == 2 * 11 + 13
    assert found.begun == 2 * 2
    assert found.paused == 3
    assert found.redone == 2 * 6
    assert found.idle == found.cost == 0


def test_the_time_until_a_loss_is_noticed_is_lost(store: Store) -> None:
    train(store, noticed=2.0)

    found = goodput_of(store, store.run(RUN), 124.0)

    assert found is not None
    assert (found.unnoticed, found.paused) == (2 * 2, 1)


@pytest.mark.parametrize(
    ("state", "unsaved"), [(RunState.LOST, 6.0), (RunState.STOPPED, 6.0), (RunState.FINISHED, 0.0)]
)
def test_steps_that_no_snapshot_has_are_kept_only_once_the_run_is_finished(
    store: Store, state: RunState, unsaved: float
) -> None:
    running = RunState.RUNNING
    store.put_run_fact(RUN, ranks=1, generation=1, state=running, started=100.0, iteration=10)
    report(store, 1, 10, at=102.0)
    store.put_run_fact(RUN, state=state, ended=111.0)

    found = goodput_of(store, store.run(RUN), 200.0)

    assert found is not None
    assert found.unsaved == unsaved


def test_the_price_of_its_nodes_is_that_of_its_time(store: Store) -> None:
    nodes = [
        Node("i-1", NodeState.JOINED, "i-1", 2, since=0.0),
        Node("i-2", NodeState.GONE, "i-2", 2, since=0.0, ended=112.0),
    ]
    store.fleets.put_nodes("default", nodes)
    store.fleets.put_prices("default", [("i-1", 50.0, 3600.0), ("i-2", 106.0, 7200.0)])
    train(store)

    found = goodput_of(store, store.run(RUN), 124.0)

    assert found is not None
    assert found.cost == pytest.approx(24 * 1.0 + 6 * 2.0)
    assert found.paid == 2 * 24 + 2 * 6
    assert found.idle == found.paid - (2 * 11 + 13)


def test_its_conclusion_keeps_the_sentence_of_a_run_that_went_on(store: Store) -> None:
    train(store)

    says = ensure_conclusion(store, store.run(RUN)).says

    assert says == goodput_sentences(store, store.run(RUN), 124.0)
    assert "steps done again" in says[0]


def test_of_a_run_that_was_not_paid_and_not_moved_nothing_is_said(store: Store) -> None:
    store.put_run_fact(RUN, ranks=1, state=RunState.RUNNING, started=100.0)
    assert goodput_of(store, store.run(RUN), 101.0) is None
    report(store, 1, 5, at=101.0)
    assert goodput_of(store, store.run(RUN), 106.0) is not None

    assert goodput_sentences(store, store.run(RUN), 106.0) == ()
