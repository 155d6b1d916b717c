"""Nodes are given back when there is nothing to do: never earlier, never much later."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.weekly import examples
from workbench.core.cluster.idleness import (
    NOTICE_SECONDS,
    UNWATCHED_SECONDS,
    Use,
    announcement,
    describe_end,
    end_sentence,
    judge_idleness,
    released_message,
    rest_sentence,
)
from workbench.core.cluster.model import WhenDone
from workbench.core.fleet.form import DEFAULT_IDLE
from workbench.core.fleet.model import FleetWish, Node, NodeState

ASKED, READY = 1_000.0, 1_100.0
FREE = Use(ASKED, READY)
LIMIT = 900.0


def test_idle_nodes_go_after_the_limit_from_their_readiness_on() -> None:
    idle = judge_idleness(LIMIT, FREE, READY + 10.0)

    assert (idle.since, idle.ends) == (READY, READY + LIMIT)
    assert not idle.is_over(READY + LIMIT - 1.0)
    assert idle.is_over(READY + LIMIT)


def test_it_is_announced_five_minutes_before_or_a_third_of_a_short_limit() -> None:
    long, short = (judge_idleness(limit, FREE, READY) for limit in (DEFAULT_IDLE, 60.0))

    assert not long.is_announced(long.ends - NOTICE_SECONDS - 1.0)
    assert long.is_announced(long.ends - NOTICE_SECONDS)
    assert not short.is_announced(short.ends - 21.0)
    assert short.is_announced(short.ends - 20.0)
    assert not short.is_announced(short.ends)


@pytest.mark.parametrize(
    ("use", "ends"),
    [
        (replace(FREE, works=True), 0.0),
        (replace(FREE, settled=0.0), 0.0),  # the nodes boot, or capacity is waited for
        (replace(FREE, settled=0.0, works=True), 0.0),
        (replace(FREE, executing=30.0), 0.0),
        (replace(FREE, ended=READY + 50.0), READY + 50.0 + LIMIT),
        (replace(FREE, executed=READY + 60.0), READY + 60.0 + LIMIT),
        (replace(FREE, ended=READY + 50.0, done=WhenDone.KEEP), READY + 50.0 + LIMIT),
        (replace(FREE, ended=READY + 50.0, done=WhenDone.RELEASE), READY + 50.0),
        (replace(FREE, ended=READY + 50.0, done=WhenDone.DELETE), READY + 50.0),
        (replace(FREE, ended=READY + 50.0, done=WhenDone.DELETE, works=True), 0.0),
        # A job may end before its last node is ready.
        (replace(FREE, settled=0.0, ended=READY + 50.0, done=WhenDone.RELEASE), READY + 50.0),
        (replace(FREE, settled=0.0, released=READY + 40.0), READY + 40.0),
        (replace(FREE, settled=0.0, released=READY + 40.0, works=True), 0.0),
    ],
)
def test_what_counts_as_use_holds_the_nodes(use, ends) -> None:
    assert judge_idleness(LIMIT, use, READY + 100.0).ends == ends


def test_without_a_limit_only_what_a_run_says_ends_the_nodes() -> None:
    assert judge_idleness(0.0, FREE, READY + 1e6).ends == 0.0
    assert judge_idleness(0.0, replace(FREE, ended=READY, done=WhenDone.RELEASE), 2e6).ends == READY


def test_a_cell_that_never_ends_beside_runs_holds_nodes_for_a_while() -> None:
    now = READY + UNWATCHED_SECONDS + 100.0
    hung = replace(FREE, executing=UNWATCHED_SECONDS + 100.0)

    assert judge_idleness(LIMIT, replace(hung, executing=UNWATCHED_SECONDS - 1.0), now).ends == 0.0
    assert judge_idleness(LIMIT, hung, now).ends == READY + UNWATCHED_SECONDS + LIMIT


DEEDS = ("wait", "wait", "run", "end", "cell", "keep", "kill", "job", "boot")


@settings(derandomize=True, deadline=None, max_examples=examples(500))
@given(
    st.lists(st.tuples(st.sampled_from(DEEDS), st.floats(1.0, 700.0)), max_size=30),
    st.sampled_from([60.0, LIMIT]),
)
def test_whatever_happens_nodes_are_idle_no_longer_than_the_limit_and_never_taken_from_work(
    history, limit
) -> None:
    cluster = IdleCluster(limit)
    for deed, seconds in history:
        getattr(cluster, deed)()
        cluster.live(seconds)

    cluster.end()
    cluster.live(limit + UNWATCHED_SECONDS)
    assert not cluster.has_nodes


class IdleCluster:
    """A cluster whose stored moments are all that a decision is made of, once a second or so."""

    def __init__(self, limit: float) -> None:
        self.limit, self.now = limit, 10_000.0
        self.use, self.booted, self.cell_ends, self.idle = Use(self.now), 0.0, 0.0, 0.0
        self.has_nodes = self.is_wanted = True
        self.jobs = False
        self.boot()

    def wait(self) -> None:
        pass

    kill = wait  # nothing else is remembered

    def boot(self) -> None:
        self.booted = self.now + 90.0 if not self.use.settled else self.booted

    def run(self) -> None:
        self.use = replace(self.use, works=True)
        self.jobs = False

    def job(self) -> None:
        self.run()
        self.jobs = True

    def end(self) -> None:
        if self.use.works:
            done = WhenDone.RELEASE if self.jobs else self.use.done
            self.use = replace(self.use, works=False, ended=self.now, done=done)

    def cell(self) -> None:
        if self.has_nodes and not self.use.works and self.use.settled:
            self.cell_ends = self.now + 200.0

    def keep(self) -> None:
        if self.has_nodes:
            self.use = replace(self.use, asked=self.now, done=None)
            self.use = replace(self.use, settled=self.now if self.use.settled else 0.0)

    def live(self, seconds: float) -> None:
        end, step = self.now + seconds, max(5.0, seconds / 50.0)
        while self.now < end:
            self.now += step
            self.turn(step)

    def turn(self, step: float) -> None:
        if not self.has_nodes and self.use.works:
            self.use = replace(self.use, released=0.0, settled=0.0)
            self.has_nodes, self.booted = True, self.now + 90.0
        if self.has_nodes and not self.use.settled and self.now >= self.booted:
            self.use = replace(self.use, settled=self.now)
        executing = 1.0 if self.now < self.cell_ends else 0.0
        executed = min(self.now, self.cell_ends)
        self.use = replace(self.use, executing=executing, executed=executed)
        before, idle = self.has_nodes, judge_idleness(self.limit, self.use, self.now)
        assert idle == judge_idleness(self.limit, self.use, self.now)
        if idle.is_over(self.now) and self.has_nodes:
            is_used = self.use.works or executing
            assert not is_used, "nodes were taken from work"
            is_asked = self.use.done is WhenDone.RELEASE
            assert is_asked or self.now - self.used() >= self.limit, "they were taken too early"
            self.use = replace(self.use, released=self.now, settled=0.0)
            self.has_nodes = False
        if self.has_nodes and before:
            assert self.now - self.used() <= self.limit + step + 95.0, "they were idle too long"

    def used(self) -> float:
        """Return when there was last something to do, by what happened here."""
        if self.use.works or self.use.executing or self.now < self.booted:
            return self.now
        return max(self.use.asked, self.use.settled, self.use.ended, self.use.executed)


def test_the_sentences_name_what_goes_when_and_how_to_keep_it() -> None:
    nodes = (Node("a", NodeState.JOINED), Node("b", NodeState.JOINED))
    idle = judge_idleness(LIMIT, FREE, READY)

    assert announcement("spot", 4, 0.91, idle, idle.ends - 290.0) == (
        "There is nothing to do: 4 nodes ($0.91/h) will be given back in 5 min. "
        "`workbench keep --cluster spot` keeps them."
    )
    assert announcement("spot", 1, 0.0, idle, idle.ends - 4.0) == (
        "There is nothing to do: 1 node will be given back in 4 s. "
        "`workbench keep --cluster spot` keeps it."
    )
    assert released_message(nodes) == (
        "The nodes are being given back while there is nothing to do; the next run starts them "
        "again."
    )
    assert "given back while there is nothing to do, and cost nothing;" in released_message(())


def test_the_question_before_a_start_names_what_ends_the_costs() -> None:
    fleet = FleetWish("rehearsal", idle=DEFAULT_IDLE)

    assert describe_end(fleet, None, 0.84) == (
        "The nodes are given back after 15 min with nothing to do, which costs at most $0.21 each "
        "time."
    )
    assert describe_end(replace(fleet, idle=0.0), None, 0.84) == ""
    assert "given back when the run has ended" in describe_end(fleet, WhenDone.RELEASE, 0.84)
    assert "deleted when the run has ended" in describe_end(fleet, WhenDone.DELETE, 0.84)
    assert rest_sentence(replace(fleet, idle=0.0)).startswith("They stay")


@pytest.mark.parametrize(
    ("done", "idle", "said"),
    [
        (WhenDone.DELETE, 900.0, "Cluster 'c' is deleted once no run waits ($1)."),
        (WhenDone.RELEASE, 900.0, "Cluster 'c' gives its nodes back once no run waits ($1);"),
        (None, 900.0, "Cluster 'c' stays up until it has had nothing to do for 15 min ($1);"),
        (WhenDone.KEEP, 0.0, "Cluster 'c' stays up ($1); delete it with `workbench delete"),
    ],
)
def test_the_end_of_a_run_says_what_becomes_of_its_cluster(done, idle, said) -> None:
    assert end_sentence("c", FleetWish("rehearsal", idle=idle), done, " ($1)").startswith(said)
