"""What ranks execute beside runs is asked, and counts until they answer otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from workbench.core.cluster.generation import WorldFact, WorldState
from workbench.core.cluster.idleness import Idleness
from workbench.core.cluster.model import ClusterFact, ClusterWish
from workbench.core.fleet.model import FleetWish, Node, NodeState
from workbench.core.run.rank_protocol import AskPulse, Delivery, Pulse
from workbench.core.run_id import NO_RUN
from workbench.core.world.world import RankFact
from workbench.engine.rank import RankHealth
from workbench.store import Store
from workbench.supervisor.idle_watch import ASK_SECONDS, IdleWatch

NOW, LIMIT = 10_000.0, 900.0
NODES = (Node("a", NodeState.JOINED, "10.0.0.1"),)
WORLDS = (WorldFact(1, 1, WorldState.READY, (RankFact(1, 0, "a", 1, 0),)),)
WISH = ClusterWish("c", True, 1, fleet=FleetWish("rehearsal", idle=LIMIT, asked=1_000.0))
PULSE = Delivery(1, Pulse("260101-000000-aaaa", 0, 3))


class Ranks:
    """Ranks that keep what they are asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def send(self, generation: int, ranks: range, command: AskPulse) -> None:
        self.asked.append((generation, [*ranks], command))


@pytest.fixture
def ranks() -> Ranks:
    return Ranks()


@pytest.fixture
def watch(tmp_path: Path, ranks: Ranks) -> Iterator[IdleWatch]:
    with Store(tmp_path / "store.sqlite3") as store:
        yield IdleWatch("c", store, ranks)  # type: ignore[arg-type]  # asks ranks alone


def look(watch: IdleWatch, now: float, *, works: bool = False) -> Idleness:
    fact = ClusterFact("c", settled=2_000.0)
    return watch.look(WISH, fact, NODES, WORLDS, works=works, now=now)[0]


def answer(watch: IdleWatch, now: float, executing: float, executed: float | None = None) -> None:
    pulse = Pulse(NO_RUN, 0, 0, idle=not executing, executing=executing, executed=executed)
    assert watch.hear([Delivery(1, pulse), PULSE], now) == [PULSE]


def test_a_new_supervisor_waits_for_the_first_answers(watch, ranks) -> None:
    assert not look(watch, NOW).ends
    assert ranks.asked == [(1, [0], AskPulse(NO_RUN))]
    answer(watch, NOW + 1.0, 0.0)

    assert look(watch, NOW + ASK_SECONDS).is_over(NOW + ASK_SECONDS)


def test_a_cell_beside_runs_holds_the_nodes_and_its_end_begins_the_idle_time(watch) -> None:
    look(watch, NOW)
    answer(watch, NOW + 1.0, 5.0)
    assert not look(watch, NOW + ASK_SECONDS).ends
    assert not look(watch, NOW + 2 * ASK_SECONDS - 1.0).ends  # not answered yet
    answer(watch, NOW + 2 * ASK_SECONDS, 0.0, 4.0)
    look(watch, NOW + 3 * ASK_SECONDS)
    answer(watch, NOW + 3 * ASK_SECONDS, 0.0, 4.0 + ASK_SECONDS)

    ended = NOW + 2 * ASK_SECONDS - 4.0
    assert look(watch, NOW + 4 * ASK_SECONDS).ends == pytest.approx(ended + LIMIT)


def test_ranks_are_asked_once_in_a_while_and_never_during_a_run(watch, ranks) -> None:
    for second in range(25):
        look(watch, NOW + second)
    assert len(ranks.asked) == 3

    look(watch, NOW + 100.0, works=True)
    assert len(ranks.asked) == 3


class Kernel:
    """An engine's kernel, as far as it tells when it executes something."""

    def pre_handler_hook(self) -> None:
        pass

    def post_handler_hook(self) -> None:
        pass


class Shell:
    """An engine's shell."""

    def __init__(self) -> None:
        self.kernel: Any = Kernel()


def test_what_the_supervisor_calls_counts_while_it_lasts_alone(monkeypatch) -> None:
    monkeypatch.setattr("signal.signal", lambda *args: None)
    shell = Shell()
    health = RankHealth(shell)
    assert health.measure_use()[0] > 0
    shell.kernel.post_handler_hook()  # it has joined
    assert health.measure_use() == (0.0, None)

    shell.kernel.pre_handler_hook()
    health.note_own()
    assert health.measure_use()[0] > 0
    shell.kernel.post_handler_hook()
    assert health.measure_use() == (0.0, None)

    shell.kernel.pre_handler_hook()
    shell.kernel.post_handler_hook()
    executing, executed = health.measure_use()
    assert executing == 0.0
    assert executed is not None
