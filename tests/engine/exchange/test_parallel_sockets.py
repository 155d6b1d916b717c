"""An exchange over sockets of our own, when a rank is lost or stopped, and while they are opened.

The ranks are on one machine and pretend that each is a node, so that sockets join them.
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.engine.conftest import TOLD, WATCHED, StartedWorld
from tests.engine.test_rank import JOIN, STAY, Supervisor
from workbench.cluster.rank_router import Mailbox
from workbench.core.fleet.connection_limits import NETWORK_VARIABLE
from workbench.core.run.rank_protocol import Ending, Interrupt
from workbench.engine.exchange.parallel_sockets import OPEN_SECONDS, _listener

from .contract import READY

pytestmark = [pytest.mark.contract, pytest.mark.mpi]

PATIENCE_SECONDS = 75.0
RAISE_SECONDS = 10.0
STOP_SECONDS = 2.0

NODES = """
import os
from workbench.core.fleet.connection_limits import NETWORK_VARIABLE, SOCKETS_VARIABLE
from workbench.core.world.world import NODE_VARIABLE
os.environ |= {SOCKETS_VARIABLE: "3", NETWORK_VARIABLE: "127.0.0.0/8",
               NODE_VARIABLE: f"node-{rank}@test"}
"""

# A chosen rank sends itself a signal in the middle of an exchange, which none can finish then.
EXCHANGE = (
    WATCHED
    + NODES
    + READY
    + """
import signal, traceback
comm = make("ring", overlap=sys.argv[3] == "overlap")
lanes = comm.reducer.lanes
found["sockets"] = lanes.count
chosen, signal_number = int(sys.argv[4]), int(sys.argv[5])
sent, send = 0, lanes.send

def send_until(message):
    global sent
    sent += 1
    if sent == 20:
        (folder / "pid").write_text(str(os.getpid()))
        os.kill(os.getpid(), signal_number)
    return send(message)

try:
    for step in range(4):
        if step == 2 and rank == chosen:
            lanes.send = send_until
        (got,) = means_of(comm, [np.full(4_000_000, rank + 1.0, "f4")])
        found[f"wrong {step}"] = int((got != np.float32((size + 1) / 2)).sum())
except Exception as error:
    found["raised"] = [is_echo(error), type(error).__name__, str(error)]
    found["inside"] = "exchange/ring.py" in traceback.format_exc()
    found["at"] = time.time()
    (folder / f"{rank}.part").write_text(json.dumps(found))
    (folder / f"{rank}.part").rename(folder / f"{rank}.json")
    time.sleep(60)  # the test ends it: MPI's end would wait for the rank that is lost
"""
    + TOLD
)

WAYS = pytest.mark.parametrize("way", ["overlap", "plain"])


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def signalled(world: StartedWorld) -> psutil.Process:
    """Wait for the rank that sends itself a signal, and return its process."""
    path = world.folder / "pid"
    wait_for(lambda: path.exists() and bool(path.read_text()))
    return psutil.Process(int(path.read_text()))


@WAYS
def test_every_survivor_of_a_rank_killed_in_an_exchange_raises_soon(start_ranks, ulfm, way) -> None:
    world = start_ranks(EXCHANGE, 4, way, "2", str(int(signal.SIGKILL)), link=1e12)
    survivors = [world.folder / f"{rank}.json" for rank in (0, 1, 3)]

    wait_for(lambda: all(path.exists() for path in survivors))

    killed = (world.folder / "pid").stat().st_mtime
    for mine in [json.loads(path.read_text()) for path in survivors]:
        assert mine["sockets"] == 3
        assert mine["inside"]
        assert mine["at"] - killed < RAISE_SECONDS
        echo, name, said = mine["raised"]
        assert echo or (name == "MachineError" and "; see whether that rank's node" in said)


@pytest.mark.either_mpi
@WAYS
def test_a_rank_stopped_in_an_exchange_for_a_while_delays_it_and_no_more(start_ranks, way) -> None:
    world = start_ranks(EXCHANGE, 3, way, "1", str(int(signal.SIGSTOP)), link=1e12)

    stopped = signalled(world)
    wait_for(lambda: stopped.status() == psutil.STATUS_STOPPED)
    time.sleep(STOP_SECONDS)
    stopped.resume()

    for mine in world.found():
        assert mine == {"sockets": 3} | {f"wrong {step}": 0 for step in range(4)}


INTERRUPTED = """
import threading, psutil
for stop in "abc":
    run(f"260101-000000-stp{stop}", HANGING)
    (folder / f"left {stop} {rank.number}").touch()
    while not (folder / f"word {stop}").exists():
        time.sleep(0.01)
    found[f"recovered {stop}"] = rank.recover()
    run(f"260101-000000-nxt{stop}", NEXT)
    lanes = [one for one in threading.enumerate() if one.name == "workbench-lane"]
    found[f"open {stop}"] = [len(psutil.Process().net_connections("tcp")), len(lanes)]
"""
HANGING = """
import time, workbench
import numpy as np
from mpi4py import MPI
rank = MPI.COMM_WORLD.rank
comm = workbench.create_communicator("ring", overlap=OVERLAP)
if rank == 1:
    time.sleep(60)
for number, mean in comm.mean(["/a"], [np.ones(4_000_000, "f4")], [(4_000_000,)]):
    pass
"""
NEXT = """
comm = workbench.create_communicator("ring", overlap=OVERLAP)
assert comm.reducer.lanes.count == 3
for number, mean in comm.mean(["/a"], [np.full(300_000, rank + 1.0, "f4")], [(300_000,)]):
    assert (mean == 1.5).all()
"""


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    mailbox = Mailbox(tmp_path / "mailbox.json")
    mailbox.open()
    with contextlib.closing(mailbox):
        yield Supervisor(mailbox)


@WAYS
def test_a_stop_frees_ranks_in_an_exchange_and_the_next_run_has_new_sockets(
    start_ranks, supervisor, ulfm, way
) -> None:
    address = supervisor.mailbox.endpoint, supervisor.mailbox.server_key
    cells = [cell.replace("OVERLAP", str(way == "overlap")) for cell in (HANGING, NEXT)]
    texts = f"HANGING, NEXT = {cells!r}\n"
    ready = "from mpi4py import MPI\nrank = MPI.COMM_WORLD.rank\n" + NODES
    world = start_ranks(ready + JOIN + texts + INTERRUPTED + STAY, 2, *address)

    for stop in "abc":
        hanging, following = f"260101-000000-stp{stop}", f"260101-000000-nxt{stop}"
        supervisor.see(hanging, lambda pulse: pulse.line == 8, ranks=(1,))
        supervisor.see(hanging, lambda pulse: pulse.line == 9, ranks=(0,))
        begun = time.monotonic()
        supervisor.send(Interrupt(hanging))
        supervisor.listen(lambda hanging=hanging: len(supervisor.endings(hanging)) == 2)
        assert time.monotonic() - begun < RAISE_SECONDS
        for ending in supervisor.endings(hanging).values():
            assert ending.secondary or ending.error == "interrupted"
        (world.folder / f"word {stop}").touch()
        supervisor.listen(lambda following=following: len(supervisor.endings(following)) == 2)
        assert supervisor.endings(following) == {n: Ending("finished") for n in range(2)}

    for mine in world.found():
        assert mine["open c"] == mine["open b"] == mine["open a"]


# As a rank's listening socket is there, and before the others know where, strangers come to it.
STRANGERS = (
    WATCHED
    + NODES
    + """
import contextlib, gc, psutil, socket
import numpy as np
from workbench.engine.exchange import parallel_sockets as module

comm = worlds.offer(0)
me, strangers, places = psutil.Process(), [], []

def listening():
    return [c for c in me.net_connections("tcp") if c.status == psutil.CONN_LISTEN]

before = len(listening())

def come(place):
    places.append(list(place))
    for greeting in (b"", b"", b"GET /", bytes(16) + b"\\x00", b"\\xff" * 4096, None):
        came = socket.create_connection(place)
        strangers.append(came)
        if greeting:
            came.sendall(greeting)
        if greeting is None:  # it hangs up without a word, and by a reset
            came.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0] + [0] * 4))
            came.close()
    strangers[1].shutdown(socket.SHUT_WR)

bound = socket.socket.listen
def listen_among_strangers(self, *arguments):
    bound(self, *arguments)
    come(self.getsockname())
socket.socket.listen = listen_among_strangers
began = time.monotonic()
opened = module.open_lanes(comm, 3)
found["took"] = time.monotonic() - began
socket.socket.listen = bound
found["opened"] = opened is not None
found["places"], found["listening"] = places, len(listening()) - before
if opened is not None:
    room = np.zeros(1_000_000, "u1")
    coming = opened.receive(room)
    opened.send(np.full(1_000_000, rank, "u1")).Wait()
    coming.Wait()
    found["right"] = bool((room == (rank - 1) % size).all())
got = []
for stranger in strangers[:-1]:
    stranger.settimeout(5)
    try:
        got.append(len(stranger.recv(1)))
    except ConnectionError:
        got.append(0)
found["strangers got"] = got

def handles():
    gc.collect()
    deadline = time.monotonic() + 5
    while any(t.name == "workbench-lane" for t in threading.enumerate()):
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return [me.num_fds(), threading.active_count()]

del opened
comm.Barrier()
counts = []
for turn in range(4):
    for ranks in (2, 3):
        part = comm.Split(0 if rank < ranks else 1, rank)
        opened = module.open_lanes(part, 3)
        found[f"{turn} {ranks}"] = None if opened is None else opened.count
        if opened is not None and turn % 2:
            opened.close()
        del opened
        comm.Barrier()
    counts.append(handles())
found["counts"] = counts
"""
    + TOLD
)


@pytest.fixture(scope="module")
def among_strangers(start_ranks) -> list[dict[str, Any]]:
    return start_ranks(STRANGERS, 3, link=1e12).found()


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


def test_sockets_and_threads_end_with_the_lanes_over_repeated_sizes(among_strangers) -> None:
    for rank, mine in enumerate(among_strangers):
        for turn in range(4):
            assert mine[f"{turn} 2"] == (3 if rank < 2 else None)
            assert mine[f"{turn} 3"] == 3
        assert mine["counts"][1:] == mine["counts"][:1] * 3


def test_a_rank_outside_the_network_of_all_nodes_does_not_listen(monkeypatch) -> None:
    monkeypatch.setenv(NETWORK_VARIABLE, "240.0.0.0/8")
    assert _listener() is None
