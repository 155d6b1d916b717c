"""Tell which of workbench's processes uses how much of the processors."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field
from statistics import median

import psutil

from workbench.core.cluster.model import DEFAULT_CLUSTER
from workbench.store import Store

from .place import Place

EVERY_SECONDS = 2.0
PAGE = "page (this benchmark)"


@dataclass(frozen=True)
class Reading:
    """Processor seconds used by each role up to one moment, in epoch seconds."""

    moment: float
    seconds: dict[str, float]


@dataclass
class Usage:
    """Reads, from time to time, what each role has used.

    Args:
        roles: Role to its processes.
        ranks: The processes whose main thread trains; their other threads are ``rank threads``.
    """

    roles: dict[str, list[psutil.Process]]
    ranks: list[psutil.Process]
    readings: list[Reading] = field(default_factory=list)
    _used: dict[int, float] = field(default_factory=dict)  # also by processes that have ended

    def look(self) -> None:
        """Read, unless it was done a moment ago."""
        if not self.readings or time.time() - self.readings[-1].moment >= EVERY_SECONDS:
            self.readings.append(self.read())

    def read(self) -> Reading:
        """Read now."""
        for process in [one for found in self.roles.values() for one in found]:
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                self._used[process.pid] = times.user + times.system
        seconds = {
            role: sum(self._used.get(one.pid, 0.0) for one in found)
            for role, found in self.roles.items()
        }
        seconds["rank threads"] = sum(map(_used_beside_main, self.ranks))
        return Reading(time.time(), seconds)

    def shares(self, begun: float, ended: float) -> dict[str, float]:
        """Return processor seconds a second in the readings between two moments."""
        inside = [reading for reading in self.readings if begun <= reading.moment <= ended]
        if len(inside) < 2:
            return {}
        return _between(inside[0], inside[-1])

    def watch(self, seconds: float) -> dict[str, float]:
        """Return processor seconds a second, by role, while this waits ``seconds``."""
        first = self.read()
        time.sleep(seconds)
        return _between(first, self.read())


def _between(first: Reading, last: Reading) -> dict[str, float]:
    passed = last.moment - first.moment
    return {role: (last.seconds[role] - first.seconds[role]) / passed for role in first.seconds}


def usage_of(place: Place, kernel: int, cluster: str = DEFAULT_CLUSTER) -> Usage:
    """Find the processes of a cluster that is ready, and of a kernel."""
    with Store() as store:
        fact = store.cluster_fact(cluster)
        pids = [rank.pid for rank in store.ranks(cluster, fact.generation)]
    roles: dict[str, list[psutil.Process]] = {"supervisor": [psutil.Process(fact.supervisor)]}
    roles["kernel"] = [psutil.Process(kernel)]
    roles[PAGE] = [psutil.Process(os.getpid())]
    known = {fact.supervisor, kernel, *pids}
    for process in place.processes():
        if process.pid not in known:
            with contextlib.suppress(psutil.NoSuchProcess):
                role = "mpiexec" if _is_mpiexec(process) else "controller"
                roles.setdefault(role, []).append(process)
    return Usage(roles, [psutil.Process(pid) for pid in pids])


def middle(shares: list[dict[str, float]]) -> dict[str, float]:
    """Return the median share of each role."""
    roles = {role for share in shares for role in share}
    return {role: median(share[role] for share in shares if role in share) for role in roles}


def _is_mpiexec(process: psutil.Process) -> bool:
    return any(word in process.name() for word in ("mpiexec", "mpirun", "prte", "hydra"))


def _used_beside_main(process: psutil.Process) -> float:
    others = [thread for thread in process.threads() if thread.id != process.pid]
    return sum(thread.user_time + thread.system_time for thread in others)
