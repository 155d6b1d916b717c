"""Messages of a rank can end its own run, and never the supervisor or another run."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.supervisor.conftest import NAME, Stage
from workbench.core.cluster.generation import WorldFact, WorldState
from workbench.core.moment import Moment
from workbench.core.recovery.resumption import NONE
from workbench.core.run.model import Run, RunFact, RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import (
    Acknowledge,
    AtEdge,
    Batch,
    Chunk,
    Command,
    Delivery,
    Ending,
    EventReport,
    Hello,
    Progress,
    Pulse,
    Sample,
    SnapshotSaved,
)
from workbench.core.world.world import RankFact
from workbench.store import Store
from workbench.supervisor.activity import Activity
from workbench.supervisor.heartbeat import read_clocks
from workbench.supervisor.rank_messages import RankMessages

RUN, OTHER = "260101-000000-ours", "260101-000000-othr"
BAD_BATCHES = {
    "epoch": Batch(RUN, 0, 1, progress=Progress(1, 2, math.nan)),
    "total": Batch(RUN, 0, 1, progress=Progress(1, 2**70)),
    "iteration": Batch(RUN, 0, 1, (Sample("loss", 2**70, 1.0, 0.5),)),
    "time": Batch(RUN, 0, 1, (Sample("loss", 1, math.nan, 0.5),)),
    "surrogate": Batch(RUN, 0, 1, chunks=(Chunk("stdout", 1.0, "\ud800"),)),
    "no measurement": Batch(RUN, 0, 1, chunks=(Chunk("measurement", 1.0, '{"survey": 5}'),)),
    "no JSON": Batch(RUN, 0, 1, chunks=(Chunk("measurement", 1.0, "["),)),
}


class Deaf:
    """A cluster that hears and says nothing, and notes what it was to send."""

    fault_tolerant = True

    def __init__(self) -> None:
        self.sent: list[tuple[int, tuple[int, ...], Command]] = []

    def send(self, generation: int, ranks: Sequence[int], command: Command) -> None:
        self.sent.append((generation, tuple(ranks), command))


class Desk:
    """Mail for one run of two ranks that is on generation 3."""

    def __init__(self, store: Store) -> None:
        self.store, self.cluster = store, Deaf()
        for run in (RUN, OTHER):
            store.wish_run(RunWish(run, run, RunKind.CELL, "", NAME))
            store.put_run_fact(run, generation=3, ranks=2, state=RunState.SUBMITTED)
        ranks = tuple(RankFact(3, n, "here", 0, n) for n in range(2))
        world = WorldFact(3, 2, WorldState.READY, ranks)
        wish = RunWish(RUN, RUN, RunKind.CELL, "", NAME)
        fact = RunFact(RUN, RunState.SUBMITTED, 3, 2)
        self.activity = Activity(Run(wish, fact), world, store, self.cluster, now=Moment(1e9, 0.0))
        self.mail = RankMessages(store, self.cluster, read_clocks)

    def take(self, *messages: Batch | Pulse | Hello, generation: int = 3) -> None:
        messages = [Delivery(generation, message) for message in messages]
        self.turn(messages, Moment(1e9, 1.0))

    def turn(self, messages: Sequence[Delivery], now: Moment) -> None:
        """Do what the loop does with messages."""
        self.mail.take(messages, {RUN: self.activity}.get, now)
        with self.activity.guard(now):
            self.activity.turn(now)
            self.activity.keep(now)

    @property
    def fact(self) -> RunFact:
        return self.store.run(RUN).fact


@pytest.fixture
def desk(store: Store) -> Desk:
    return Desk(store)


@pytest.mark.parametrize("bad", BAD_BATCHES.values(), ids=BAD_BATCHES)
def test_what_cannot_be_kept_fails_its_run_in_a_sentence_and_what_follows_is_kept(
    desk, bad
) -> None:
    good = Batch(OTHER, 1, 1, (Sample("loss", 1, 1.0, 0.5),))

    desk.take(bad, good)
    desk.take(Batch(RUN, 0, 2, chunks=(Chunk("stdout", 1.0, "after\n"),)))

    assert desk.fact.state is RunState.FAILED
    assert desk.fact.message
    assert "WORKBENCH_HOME" not in desk.fact.message
    assert [p.value for p in desk.store.reports.points(OTHER)] == [0.5]
    assert [o.text for o in desk.store.reports.output(RUN)] == ["after\n"]


def test_reported_values_are_values_whatever_their_name(desk) -> None:
    names = ("edge", "begun", "seconds", "bytes", "resumed", "whole/SerialIterator", "saved")
    samples = [Sample(f"snapshot/{name}", 9, 1.0, 1.0) for name in names]

    desk.take(Batch(RUN, 0, 1, [*samples, Sample("exchange/handwritten", 9, 1.0, 1.0)]))

    assert not desk.activity.life.is_at_edge
    assert (desk.fact.resumed_at, desk.store.attempts.newest_snapshot(RUN)) == (NONE, NONE)
    assert desk.store.all("SELECT * FROM events") == []
    assert len(desk.store.reports.points(RUN)) == 8


def test_rank_0_speaks_for_all(desk) -> None:
    events = tuple(EventReport(one, 1.0) for one in (AtEdge(), SnapshotSaved(9)))

    desk.take(Batch(RUN, 1, 1, events=events))
    others = desk.activity.life.is_at_edge, desk.store.attempts.newest_snapshot(RUN)
    desk.take(Batch(RUN, 0, 1, events=events))

    assert others == (False, NONE)
    assert (desk.activity.life.is_at_edge, desk.store.attempts.newest_snapshot(RUN)) == (True, 9)


def test_the_ranks_are_asked_to_leave_a_run_that_failed_so(desk) -> None:
    desk.take(BAD_BATCHES["epoch"])

    desk.activity.turn(Moment(1e9, 5.0))

    assert [(g, ranks, type(c).__name__) for g, ranks, c in desk.cluster.sent[-1:]] == [
        (3, (0, 1), "Interrupt")
    ]


@pytest.mark.parametrize(
    ("generation", "rank"), [(2, 0), (4, 0), (3, 2)], ids=["before", "after", "no such rank"]
)
def test_only_the_ranks_of_a_run_can_add_to_it(desk, caplog, generation, rank) -> None:
    batch = Batch(RUN, rank, 1, (Sample("loss", 1, 1.0, 0.5),), ending=Ending("failed", 1, "no"))

    for _ in range(3):
        desk.take(batch, Pulse(RUN, rank, 5), generation=generation)

    assert desk.store.reports.points(RUN) == []
    assert desk.fact.state is RunState.SUBMITTED
    assert [r.getMessage() for r in caplog.records if r.levelname == "WARNING"] == [
        f"rank {rank} of generation {generation} reports on run {RUN}, which is not its own"
    ]


def test_ranks_learn_whether_a_page_follows_their_run(desk) -> None:
    desk.take(Batch(RUN, 0, 1))
    desk.store.put_open_pages(RUN, "server", 1, 1e9)
    last = Batch(RUN, 0, 2, ending=Ending("finished", 1))
    desk.turn([Delivery(3, last)], Moment(1e9, 2.0))

    answers = [one for _, _, one in desk.cluster.sent if isinstance(one, Acknowledge)]
    assert [one.watched for one in answers] == [False, True]


def test_batches_of_unknown_runs_are_acknowledged(desk) -> None:
    desk.take(Batch("260101-000000-gone", 0, 1), generation=7)

    assert desk.cluster.sent == [(7, (0,), Acknowledge("260101-000000-gone", 1, watched=False))]


def test_batches_of_unknown_runs_use_no_memory(desk) -> None:
    desk.take(Batch(RUN, 0, 1))
    before = len(repr(vars(desk.mail)))

    desk.take(*(Batch(f"260101-{number:06}-gone", 0, 1) for number in range(1_000)), generation=7)
    strangers = desk.mail._strangers
    desk.mail._strangers = set()

    assert len(strangers) == 100
    assert len(repr(vars(desk.mail))) == before


def test_a_run_whose_output_cannot_be_stored_fails_and_the_next_runs(stage: Stage) -> None:
    stage.up(2)

    bad = stage.ended(stage.ask("print('\\ud800')\nbarrier()\nsleep(60)"))
    good = stage.ended(stage.ask("report(loss=rank)"))

    assert bad.fact.state is RunState.FAILED
    assert "cannot be stored" in bad.fact.message
    assert good.fact.state is RunState.FINISHED


def test_a_rank_that_cannot_begin_fails_that_run_and_the_next_has_a_new_world(stage: Stage) -> None:
    stage.up(2)
    stage.ended(stage.ask("if rank == 1:\n    spoil()"))

    failed = stage.ended(stage.ask("barrier()"))
    good = stage.ended(stage.ask("report(loss=rank)"))

    assert failed.fact.state is RunState.FAILED
    assert failed.fact.failed_rank == 1
    assert failed.fact.message == (
        "Rank 1 on fakehost failed: ImportError: spoiled. Rank 1 can run no other cell. "
        "The ranks are restarted; earlier cells are repeated there when a run needs them."
    )
    assert good.fact.state is RunState.FINISHED
    assert good.fact.generation > failed.fact.generation


whole = st.sampled_from([0, 1, 2, 3, 2**53]) | st.integers(0, 2**53)
amount = st.floats(0, 2**53)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
runs = st.sampled_from([RUN, OTHER, "260101-000000-none"])
endings = st.builds(
    Ending, st.sampled_from(["finished", "stopped", "failed"]), whole, text, text, st.booleans()
)
batches = st.builds(
    Batch,
    runs,
    whole,
    st.integers(1, 4),
    st.lists(st.builds(Sample, text, whole, amount, st.floats()), max_size=2).map(tuple),
    st.lists(
        st.builds(Chunk, st.sampled_from(["stdout", "measurement", ""]), amount, text), max_size=2
    ).map(tuple),
    st.none() | st.builds(Progress, whole, whole, amount, amount),
    st.none() | endings,
)
pulses = st.builds(Pulse, runs, whole, whole, amount, text, amount, text)
messages = st.builds(Delivery, st.integers(2, 4), batches | pulses | st.builds(Hello, whole, whole))


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.lists(st.lists(messages, max_size=5), max_size=4))
def test_nothing_that_can_be_decoded_ends_the_supervisor(tmp_path_factory, turns) -> None:
    with Store(tmp_path_factory.mktemp("store") / "store.sqlite3") as store:
        desk = Desk(store)
        for number, turn in enumerate(turns):
            desk.turn(turn, Moment(1e9 + number, float(number)))

        assert desk.fact.id == RUN
