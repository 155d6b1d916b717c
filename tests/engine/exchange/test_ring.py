"""An exchange over our own sockets: lost and stopped ranks, and the opening of the sockets.

The ranks are on one machine, each as a simulated node, so that sockets connect them.
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from mpi4py import MPI

from tests.engine.conftest import StartedWorld
from tests.engine.test_rank import Supervisor
from tests.waiting import until
from workbench.cluster.rank_router import RankRouter
from workbench.core.fleet.connection_limits import NETWORK_VARIABLE
from workbench.core.run.rank_protocol import Interrupt
from workbench.engine.exchange.ring import OPEN_SECONDS, _listener

pytestmark = [pytest.mark.contract, pytest.mark.mpi]

PROGRAMS = Path(__file__).parent / "programs"
SIGNALLED = PROGRAMS / "signalled_rank.py"
HANGING = (PROGRAMS / "cells" / "hanging.py").read_text().splitlines()
PATIENCE_SECONDS = 75.0
RAISE_SECONDS = 10.0
STOP_SECONDS = 2.0


# Each way and each number of sockets once; the other pairs weekly.
WAYS = pytest.mark.parametrize(
    ("way", "sockets"),
    [
        ("overlap", 3),
        ("plain", 1),
        pytest.param("overlap", 1, marks=pytest.mark.weekly),
        pytest.param("plain", 3, marks=pytest.mark.weekly),
    ],
)


def signalled(world: StartedWorld) -> psutil.Process:
    """Wait for the rank that sends itself a signal, and return its process."""
    path = world.folder / "pid"
    until(lambda: path.exists() and bool(path.read_text()), seconds=PATIENCE_SECONDS)
    return psutil.Process(int(path.read_text()))


@WAYS
def test_every_survivor_of_a_rank_killed_in_an_exchange_raises_soon(
    start_ranks, ulfm, way, sockets
) -> None:
    words = way, str(sockets), "2", str(int(signal.SIGKILL))
    world = start_ranks(SIGNALLED, 4, *words, link=1e12)
    survivors = [world.folder / f"{rank}.json" for rank in (0, 1, 3)]

    until(lambda: all(path.exists() for path in survivors), seconds=PATIENCE_SECONDS)

    killed = (world.folder / "pid").stat().st_mtime
    for mine in [json.loads(path.read_text()) for path in survivors]:
        assert mine["sockets"] == sockets
        assert "exchange/ring.py" in mine["traceback"]
        assert mine["at"] - killed < RAISE_SECONDS
        echo, name, said = mine["raised"]
        assert echo or (name == "MachineError" and "; check whether that rank's node" in said)


@pytest.mark.either_mpi
@WAYS
def test_a_rank_stopped_in_an_exchange_for_a_while_delays_it_and_no_more(
    start_ranks, way, sockets
) -> None:
    words = way, str(sockets), "1", str(int(signal.SIGSTOP))
    world = start_ranks(SIGNALLED, 3, *words, link=1e12)

    stopped = signalled(world)
    until(lambda: stopped.status() == psutil.STATUS_STOPPED, seconds=PATIENCE_SECONDS)
    time.sleep(STOP_SECONDS)
    stopped.resume()

    for mine in world.found():
        assert mine == {"sockets": sockets} | {f"wrong {step}": 0 for step in range(4)}


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    router = RankRouter(tmp_path / "rank_router.json")
    router.open()
    with contextlib.closing(router):
        yield Supervisor(router)


def line_of(text: str) -> int:
    """Return the line of the hanging cell that has a text; the magic is line 1."""
    return 2 + next(number for number, line in enumerate(HANGING) if text in line)


@WAYS
def test_a_stop_frees_ranks_in_an_exchange_and_the_next_run_has_new_sockets(
    start_ranks, supervisor, ulfm, way, sockets
) -> None:
    address = supervisor.router.endpoint, supervisor.router.server_key
    world = start_ranks(PROGRAMS / "stopped_exchange.py", 2, *address, way, str(sockets))

    for stop in "abc":
        hanging, following = f"260101-000000-stp{stop}", f"260101-000000-nxt{stop}"
        supervisor.see(hanging, lambda pulse: pulse.line == line_of("time.sleep"), ranks=(1,))
        supervisor.see(hanging, lambda pulse: pulse.line == line_of("in comm.mean"), ranks=(0,))
        begun = time.monotonic()
        supervisor.send(Interrupt(hanging))
        supervisor.listen(lambda hanging=hanging: len(supervisor.endings(hanging)) == 2)
        assert time.monotonic() - begun < RAISE_SECONDS
        for ending in supervisor.endings(hanging).values():
            assert ending.secondary or ending.error == "interrupted"
        (world.folder / f"word {stop}").touch()
        supervisor.listen(lambda following=following: len(supervisor.endings(following)) == 2)
        endings = supervisor.endings(following)
        assert {n: one.state for n, one in endings.items()} == dict.fromkeys(range(2), "finished")

    for mine in world.found():
        assert mine["open c"] == mine["open b"] == mine["open a"]


@pytest.fixture(scope="module")
def among_strangers(start_ranks) -> list[dict[str, Any]]:
    return start_ranks(PROGRAMS / "strangers.py", 3, link=1e12).found()


def test_strangers_neither_delay_the_sockets_nor_get_anything(among_strangers) -> None:
    for mine in among_strangers:
        assert mine["opened"]
        assert mine["took"] < OPEN_SECONDS / 2
        assert mine["right"]
        assert mine["strangers got"] == [0] * 5


def test_ranks_listen_in_the_network_of_all_nodes_and_only_until_all_have_come(
    among_strangers,
) -> None:
    for mine in among_strangers:
        assert [place for place, _ in mine["places"]] == ["127.0.0.1"]
        assert mine["listening"] == 0


def test_sockets_end_with_their_ring_over_repeated_sizes(among_strangers) -> None:
    for rank, mine in enumerate(among_strangers):
        for turn in range(4):
            assert mine[f"{turn} 2"] == (3 if rank < 2 else None)
            assert mine[f"{turn} 3"] == 3
        assert mine["counts"][1:] == mine["counts"][:1] * 3


def test_a_rank_outside_the_network_of_all_nodes_does_not_listen(monkeypatch) -> None:
    monkeypatch.setenv(NETWORK_VARIABLE, "240.0.0.0/8")
    assert _listener(MPI.COMM_SELF) is None
