"""With a minimum, a run begins on the first nodes and grows; below it, it waits and says so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulation.thread_cluster import ThreadCluster
from workbench.cloud.rehearsal.provider import Rehearsal, Weather
from workbench.core.fleet.model import FleetWish, Needs, NodeState
from workbench.core.moment import Moment
from workbench.core.run.batch import WANTED_VARIABLE
from workbench.core.run.model import Assignment, RunKind, RunState, RunWish
from workbench.store import Store
from workbench.supervisor.fleet.fleet_loop import FleetKeeper
from workbench.supervisor.heartbeat import read_clocks
from workbench.supervisor.hosts import ClusterHosts
from workbench.supervisor.loop import Supervisor

NAME = "early"
RUN = "260101-000000-aaaa"
TURN_SECONDS = 0.5  # passes in each turn, though no one waits
DEADLINE = 30.0
# The nodes boot in 1 to 40 s: with this seed, one long before the others.
WEATHER = Weather(boot=(1.0, 40.0), lag=0.0)
SOURCE = """
first = resume()
for iteration in range(first, 5000):
    report(loss=1.0)
    if iteration == first + 1:
        snapshot()
    if size == 3 and iteration > first + 3:
        break
    sleep(0.01)
"""


# An iterator that only the program knows.
UNDIVIDED = f"""
undivided("ParallelSequentialIterator")
{SOURCE.replace("size == 3", "first")}
"""


class Early:
    """A supervisor on simulated nodes, with a clock that runs fast."""

    def __init__(self, folder: Path) -> None:
        self.store, self.own = Store(folder / "store.sqlite3"), Store(folder / "store.sqlite3")
        self.later = 0.0
        self.cloud = Rehearsal(clock=lambda: self.moment().wall, weather=WEATHER, seed=1)
        hosts = ClusterHosts(lambda wish: FleetKeeper(wish.name, self.own, self.cloud))
        self.cluster = ThreadCluster()
        self.supervisor = Supervisor(NAME, self.own, self.cluster, self.moment, hosts)

    def moment(self) -> Moment:
        now = read_clocks()
        return Moment(now.wall + self.later, now.steady + self.later)

    def ask(self, min_nodes: int, *, starts_early: bool, source: str = SOURCE) -> None:
        fleet = FleetWish(
            "rehearsal",
            nodes=3,
            min_nodes=min_nodes,
            slots=1,
            needs=Needs(types=("cpu.2",)),
            starts_early=starts_early,
        )
        self.store.wish_cluster(NAME, up=True, ranks=0, fleet=fleet)
        self.store.wish_run(RunWish(RUN, "early", RunKind.CELL, source, NAME, created=time.time()))
        self.supervisor.open()

    def until(self, look: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE
        while not look():
            assert time.monotonic() < deadline, f"{self.store.run(RUN).fact}"
            self.later += TURN_SECONDS
            self.supervisor.tick()

    def close(self) -> None:
        self.store.wish_cluster(NAME, up=False, ranks=0)
        self.until(lambda: not self.supervisor.tick())
        self.store.close()
        self.own.close()


@pytest.fixture
def early(tmp_path: Path) -> Iterator[Early]:
    made = Early(tmp_path)
    yield made
    made.close()


def test_a_run_begins_on_the_first_node_and_grows_with_the_others(
    early: Early, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, wanted = early.cluster.submit, list[str]()

    def note(generation: int, assignment: Assignment) -> None:
        wanted.append(dict(assignment.environment).get(WANTED_VARIABLE, ""))
        submit(generation, assignment)

    monkeypatch.setattr(early.cluster, "submit", note)
    early.ask(1, starts_early=True)

    early.until(lambda: early.store.run(RUN).fact.state is RunState.RUNNING)
    begun = early.store.run(RUN).fact
    early.until(lambda: early.store.run(RUN).fact.state.ended)

    fact = early.store.run(RUN).fact
    assert begun.ranks < 3
    assert (fact.state, fact.ranks) == (RunState.FINISHED, 3), fact
    assert (wanted[0], wanted[-1]) == ("3", "")
    assert all(past.state is RunState.STOPPED for past in early.store.attempts.past(RUN))


def test_without_a_given_minimum_the_first_world_has_all_nodes(early: Early) -> None:
    early.ask(1, starts_early=False)

    early.until(lambda: early.store.run(RUN).fact.state.ended)

    assert (early.store.run(RUN).fact.attempt, early.store.run(RUN).fact.ranks) == (1, 3)


def test_below_the_minimum_a_run_waits_says_for_what_and_continues(early: Early) -> None:
    early.ask(2, starts_early=True)
    early.until(lambda: early.store.attempts.newest_snapshot(RUN) >= 0)
    lost = [n for n in early.store.fleets.nodes(NAME) if n.state is NodeState.JOINED]

    for node in lost[1:]:
        early.cloud.interrupt(node.id, 0.0)
    generation = early.store.run(RUN).fact.generation
    early.cluster.worlds[generation].die(0)
    early.until(lambda: "of at least 2 nodes" in early.store.cluster_fact(NAME).message)
    message = early.store.cluster_fact(NAME).message
    early.until(lambda: early.store.run(RUN).fact.state.ended)

    assert "the run waits for" in message
    assert "/h meanwhile" in message
    assert early.store.run(RUN).fact.state is RunState.FINISHED


@pytest.mark.parametrize("is_asked", [False, True], ids=["until they are there", "until asked"])
def test_a_training_that_cannot_be_divided_waits_for_as_many_ranks_as_it_had(
    early: Early, *, is_asked: bool
) -> None:
    early.ask(1, starts_early=False, source=UNDIVIDED)
    early.until(lambda: early.store.attempts.newest_snapshot(RUN) >= 0)
    joined = [n for n in early.store.fleets.nodes(NAME) if n.state is NodeState.JOINED]

    early.cloud.interrupt(joined[0].id, 0.0)
    early.cluster.worlds[early.store.run(RUN).fact.generation].die(0)
    early.until(lambda: "waits for 3 ranks" in early.store.run(RUN).fact.message)
    message = early.store.run(RUN).fact.message
    if is_asked:
        early.store.wish_cluster(
            NAME, up=True, ranks=0, fleet=replace(early.supervisor._wish.fleet, nodes=2)
        )
    early.until(lambda: early.store.run(RUN).fact.state.ended)

    assert message == (
        "It waits for 3 ranks, and 2 are there: its ParallelSequentialIterator cannot be divided "
        "among another number of ranks. If you resize the cluster, it continues there."
    )
    fact = early.store.run(RUN).fact
    assert (fact.state, fact.ranks) == (RunState.FINISHED, 2 if is_asked else 3), fact
