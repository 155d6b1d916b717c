"""Name the machine that was measured on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from pathlib import Path

import psutil

from workbench.cluster.mpi_installation import find_mpi

LOAD = 0.15  # cores of others beside which a round is measured again
ENDING_LOOKS = 5  # of 0.1 s, while what was measured last still ends
DISTRIBUTIONS = ("ipyparallel", "ipykernel", "mpi4py", "chainer", "numpy")


def machine() -> dict[str, str]:
    """Return what there is to know, by name."""
    mpi = find_mpi()
    cores = len(os.sched_getaffinity(0))
    return {
        "processor": _processor(),
        "cores": str(cores),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "MPI": f"{mpi.kind} {mpi.version}",
        **{name: importlib.metadata.version(name) for name in DISTRIBUTIONS},
        "load at the start": f"{os.getloadavg()[0]:.1f}",
    }


def is_busy() -> bool:
    """Whether so much else runs that the figures mean little."""
    return os.getloadavg()[0] > 0.5 * len(os.sched_getaffinity(0))


def busy_cores(seconds: float = 0.1) -> float:
    """Return how many cores all programs use while this one waits ``seconds``."""
    before = psutil.cpu_times()
    time.sleep(seconds)
    after = psutil.cpu_times()
    idle = after.idle + after.iowait - before.idle - before.iowait
    spent = sum(after[:8]) - sum(before[:8])  # the rest is in these already
    return psutil.cpu_count() * max(0.0, 1 - idle / spent) if spent else 0.0


def others_cores() -> float:
    """Return how many cores are used when what was measured last has had time to end."""
    busy = 0.0
    for _ in range(ENDING_LOOKS):
        busy = busy_cores()
        if busy <= LOAD:
            break
    return busy


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()
