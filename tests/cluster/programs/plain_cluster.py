"""Start a cluster of ipyparallel's own from our profile; print its daemons' ports and a sum."""

import json
import socket

import ipyparallel as ipp
import psutil

from workbench.cluster.profile import install_profile
from workbench.core.world.world import DAEMONS


def listening(process: psutil.Process) -> list[int]:
    found = process.net_connections("inet")
    return [c.laddr.port for c in found if c.status == psutil.CONN_LISTEN]


def total() -> int:
    from mpi4py import MPI

    return int(MPI.COMM_WORLD.allreduce(1))


install_profile()
cluster = ipp.Cluster(profile="workbench", n=2)
with cluster as client:
    client.wait_for_engines(2, timeout=60)
    below = psutil.Process().children(recursive=True)
    ports = [port for one in below if one.name() in DAEMONS for port in listening(one)]
    open_ones = []
    for port in ports:
        with socket.socket() as one:
            one.settimeout(0.5)
            if one.connect_ex(("127.0.0.1", port)) == 0:
                open_ones.append(port)
    sums = client[:].apply_sync(total)
print(json.dumps({"ports": len(ports), "open": open_ones, "sums": sums}))
