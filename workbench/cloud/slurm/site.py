"""Examine a site for ``workbench doctor``, with one job of a few seconds."""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence

import psutil

from workbench.cloud.slurm.commands import run_slurm
from workbench.cloud.slurm.description import JobRequest
from workbench.cloud.slurm.first_job import say_where
from workbench.cloud.slurm.texts import (
    JOB_VARIABLE,
    NO_NODE,
    NO_PROGRAM,
    NO_SITE,
    PARTITIONS,
    read_partitions,
    read_setting,
)
from workbench.core.node.findings import Finding
from workbench.core.units import count
from workbench.errors import CloudError

# A busy site's nodes are not waited for.
WAIT_SECONDS = 20
UNREACHED = (
    "Add --in-job to `workbench up`, so that the supervisor runs in a job, or ask the site which "
    "ports of this machine nodes may reach, and to set SrunPortRange."
)
TRY = """\
import json, socket, sys
import asyncssh, mpi4py, workbench
reached = False
for address in sys.argv[2:]:
    try:
        socket.create_connection((address, int(sys.argv[1])), 5).close()
        reached = True
        break
    except OSError:
        pass
print(json.dumps([socket.gethostname(), reached]))
"""


def examine_site(request: JobRequest) -> tuple[Finding, ...]:
    """Return what keeps a site's nodes from being a cluster's; nothing where there is no Slurm."""
    if shutil.which("sbatch") is None:
        return ()
    try:
        return tuple(_examine(request))
    except CloudError as error:
        if error.code == NO_SITE:
            return ()
        return (Finding("Slurm", False, error.what, _sentence(error.remedy)),)


def own_addresses() -> tuple[str, ...]:
    """Return the addresses of this machine that others may reach."""
    return tuple(
        one.address
        for addresses in psutil.net_if_addrs().values()
        for one in addresses
        if one.family is socket.AF_INET and not one.address.startswith("127.")
    )


def open_ports() -> Sequence[int]:
    """Return the ports at which nodes may dial this machine: the site's for `srun`, or any (0)."""
    said = read_setting(run_slurm(["scontrol", "show", "config"]), "SrunPortRange")
    first, _, last = said.partition("-")
    if first.isdigit() and last.isdigit() and int(first):
        return range(int(first), int(last) + 1)
    return (0,)


def _examine(request: JobRequest) -> Iterator[Finding]:
    yield Finding("Slurm", True, run_slurm(["sinfo", "--version"]).strip())
    for one in read_partitions(run_slurm(["sinfo", "-h", "-o", PARTITIONS])):
        if one.is_usual or one.name == request.partition:
            gpus = f", {count(one.gpus, 'GPU')} ({one.gpu})" if one.gpus else ""
            yield Finding(
                f"partition {one.name}", one.is_up,
                f"{count(one.nodes, 'node')} of {count(one.cpus, 'CPU')} and {one.memory:.3g} GiB"
                f"{gpus}; {count(one.idle, 'CPU')} idle now",
                "" if one.is_up else "Choose another one with --partition.",
            )  # fmt: skip
    limit, _ = resource.getrlimit(resource.RLIMIT_CPU)
    if limit != resource.RLIM_INFINITY and JOB_VARIABLE not in os.environ:
        yield Finding(
            "long processes", False, f"this machine ends processes after {limit} s of CPU time",
            "Add --in-job to `workbench up`, so that the supervisor runs in a job.",
        )  # fmt: skip
    if said := say_where():
        yield Finding("supervisor", True, said)
    yield from _try_node(request)


def _try_node(request: JobRequest) -> Iterator[Finding]:
    """Run one small job, if a node is free: is the environment there, and is this machine?"""
    server = _listen()
    with server:
        port = f"{server.getsockname()[1]}"
        words = [word for word in request.words if not word.startswith(("--time", "--exclusive"))]
        command = ["srun", f"--immediate={WAIT_SECONDS}", "-N1", "-n1", "--time=2", *words]
        tried = [sys.executable, "-c", TRY, port, *own_addresses()]
        try:
            said = run_slurm([*command, *tried])
            name, is_reached = json.loads(said.strip().splitlines()[-1])
        except CloudError as error:
            yield _judge_failure(error)
            return
        except (ValueError, IndexError):
            yield Finding("node", None, "its answer could not be read")
            return
    yield Finding(f"environment on {name}", True, f"{sys.executable} is there")
    yield Finding(
        f"connection from {name}", is_reached,
        f"it {'reaches' if is_reached else 'does not reach'} this machine at port {port}",
        "" if is_reached else UNREACHED,
    )  # fmt: skip


def _judge_failure(error: CloudError) -> Finding:
    if error.code == NO_NODE:
        return Finding("node", None, "no node is free now, so nothing was tried on one")
    if error.code == NO_PROGRAM:
        return Finding(
            "environment on nodes", False, f"{sys.executable} does not work there ({error.what})",
            "Install workbench into an environment below your home, or on another shared disk.",
        )  # fmt: skip
    return Finding("node", False, error.what, _sentence(error.remedy))


def _listen() -> socket.socket:
    for port in open_ports():
        try:
            return socket.create_server(("0.0.0.0", port))
        except OSError:
            continue
    return socket.create_server(("0.0.0.0", 0))


def _sentence(remedy: str) -> str:
    return f"{remedy[:1].upper()}{remedy[1:]}"
