"""A world on this machine alone cannot be reached from other machines."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import psutil
import pytest

from tests.cluster.conftest import PRELUDE, Bench
from workbench.cluster.mpi_cluster import MpiCluster

pytestmark = pytest.mark.mpi


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


def test_nothing_of_a_world_on_this_machine_is_heard_outside(tmp_path):
    before = {*listening(psutil.Process())}  # as where another test initialized MPI in this process
    cluster = MpiCluster(tmp_path)
    cluster.open({})
    try:
        bench = Bench(cluster, tmp_path, PRELUDE)
        generation = bench.ready(2)
        bench.batches_until_ended(bench.submit(generation, "barrier()"), 2)
        world = psutil.Process(cluster._cluster.engines[f"g{generation}"].pid)
        controller = psutil.Process(cluster._cluster.controller.pid)

        found = {
            # This process has the supervisor's part; not what else it started.
            *({*listening(psutil.Process())} - before),
            *listening(world, *world.children(recursive=True)),
            *listening(controller, *controller.children(recursive=True)),
        }

        assert found
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
    finally:
        cluster.close()
