"""What listens for a world: nothing that other machines reach, and no daemon for anybody."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.cluster.conftest import PRELUDE, PROGRAMS, Bench
from workbench.cluster.daemon_sockets import require_signatures
from workbench.cluster.mpi_cluster import MpiCluster
from workbench.core.world.world import DAEMONS

pytestmark = pytest.mark.mpi
STRANGER = 65534


def outside() -> list[str]:
    """Return the addresses by which others reach this machine."""
    found = (a for all_ in psutil.net_if_addrs().values() for a in all_)
    return [
        a.address for a in found if a.family is socket.AF_INET and not a.address.startswith("127.")
    ]


def listening(*processes: psutil.Process) -> Iterator[tuple[str, str, int]]:
    """Give what processes listen on: their name, address and port."""
    for one in processes:
        for connection in one.net_connections("inet"):
            if connection.status == psutil.CONN_LISTEN:
                yield one.name(), connection.laddr.ip, connection.laddr.port


def answers(address: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, port), 0.5):
        return True
    return False


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Bench, int, set[tuple[str, str, int]]]]:
    """Give a world of two ranks that have run a cell, and all that listens for it."""
    folder = tmp_path_factory.mktemp("world")
    before = {*listening(psutil.Process())}  # as where another test initialized MPI in this process
    cluster = MpiCluster(folder)
    cluster.open({})
    try:
        bench = Bench(cluster, folder, PRELUDE)
        generation = bench.ready(2)
        bench.batches_until_ended(bench.submit(generation, "barrier()"), 2)
        mpiexec = psutil.Process(cluster._cluster.engines[f"g{generation}"].pid)
        controller = psutil.Process(cluster._cluster.controller.pid)
        found = {
            # This process has the supervisor's part; not what else it started.
            *({*listening(psutil.Process())} - before),
            *listening(mpiexec, *mpiexec.children(recursive=True)),
            *listening(controller, *controller.children(recursive=True)),
        }
        yield bench, generation, found
    finally:
        cluster.close()


def test_nothing_of_a_world_on_this_machine_is_heard_outside(world) -> None:
    _, _, found = world

    inside = [port for _, address, port in found if address.startswith("127.")]
    assert inside
    assert not [
        (name, port, address)
        for name, at, port in found
        if not at.startswith("127.")
        for address in outside()
        if answers(address, port)
    ]
    ranks = [row for row in found if "python" in row[0] and not row[1].startswith("127.")]
    assert {port for _, _, port in ranks} <= {p for n, _, p in found if "python" not in n}


@pytest.mark.either_mpi
def test_no_daemon_takes_a_connection_of_its_own_user_either_and_later_runs_work(world) -> None:
    bench, generation, found = world

    ports = {port for name, _, port in found if name in DAEMONS}
    assert ports
    assert not [port for port in ports if answers("127.0.0.1", port)]
    source = "assert MPI.COMM_WORLD.allreduce(1) == 2"
    ended = bench.batches_until_ended(bench.submit(generation, source), 2)
    assert {batches[-1].ending.state for batches in ended.values()} == {"finished"}


@pytest.mark.root
def test_another_user_of_this_machine_connects_to_no_daemon(world) -> None:
    _, _, found = world
    ports = sorted({port for name, _, port in found if name in DAEMONS})

    said = subprocess.run(
        [sys.executable, str(PROGRAMS / "open_ports.py"), *map(str, [STRANGER, *ports])],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert json.loads(said.stdout) == {"user": STRANGER, "open": []}


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::"])
def test_where_a_filter_is_forbidden_a_key_closes_a_socket_and_its_connections_stay(
    address,
) -> None:
    """As for a user who is not root, on kernels that keep filters to root."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    if family is socket.AF_INET6 and not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    with socket.create_server((address, 0), family=family, dualstack_ipv6=":" in address) as one:
        port = one.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), 5.0) as before, one.accept()[0] as there:
            require_signatures(one)

            assert not answers("127.0.0.1", port)
            assert family is socket.AF_INET or not answers("::1", port)
            before.sendall(b"still")
            assert there.recv(5) == b"still"


def test_a_cluster_without_a_supervisor_closes_its_daemons_too(tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / "plain_cluster.py")],
        env=os.environ | {"IPYTHONDIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["ports"]
    assert found["open"] == []
    assert found["sums"] == [2, 2]
