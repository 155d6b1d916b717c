"""Check whether the supervisor that holds a cluster's lock responds, and end one that hangs.

It is identified by pid, start time and command line, so no other process is ever signalled.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from pathlib import Path

from workbench.core.cluster.model import ClusterState
from workbench.core.supervisor.heartbeat import (
    STOPPED,
    Heartbeat,
    Stirring,
    is_late,
    read_heartbeat,
    why_still,
)
from workbench.errors import MachineError
from workbench.store.paths import cluster_directory
from workbench.store.store import Store

HEARTBEAT_NAME = "heartbeat.json"
# For debugging: a supervisor under a debugger is not continued, ended or replaced.
VARIABLE = "WORKBENCH_WATCHDOG"
LOOK_SECONDS = 2.0
END_SECONDS = 10.0


def is_watched() -> bool:
    """Whether a supervisor that hangs is to be replaced."""
    return os.environ.get(VARIABLE, "").lower() not in ("0", "off", "no")


def has_work(store: Store, cluster: str) -> bool:
    """Whether a supervisor of ``cluster`` has work to do."""
    wish, state = store.cluster_wish(cluster), store.cluster_fact(cluster).state
    if wish is None:
        return False
    return state is not (ClusterState.FAILED if wish.up else ClusterState.DOWN)


def last_heartbeat(folder: Path) -> Heartbeat | None:
    """Return the last heartbeat in the cluster's folder; None without one."""
    with contextlib.suppress(OSError):
        return read_heartbeat((folder / HEARTBEAT_NAME).read_text(encoding="utf-8"))
    return None


def rouse(cluster: str) -> str:
    """Continue a stopped supervisor, and end one that hangs.

    Returns:
        One sentence on what was found and done; empty if all is well, or supervisors are not
        checked.

    Raises:
        MachineError: It hangs, and cannot be ended.
    """
    heartbeat = last_heartbeat(cluster_directory(cluster))
    if heartbeat is None or not is_watched() or heartbeat.boot != boot_id():
        return ""
    if not is_late(heartbeat, time.monotonic()):
        return ""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        handle = os.pidfd_open(heartbeat.pid)
        try:
            return _rouse(cluster, heartbeat, handle)
        finally:
            os.close(handle)
    return ""


def birth(pid: int) -> int:
    """Return a process's start time in clock ticks since boot; 0 without such a process."""
    fields = _fields(pid)
    return int(fields[19]) if len(fields) > 19 else 0


def boot_id() -> str:
    """Return the kernel's id of the current boot."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _rouse(cluster: str, heartbeat: Heartbeat, handle: int) -> str:
    """Check twice, then signal the process of ``handle`` (a pidfd, never reused)."""
    pid = heartbeat.pid
    if birth(pid) != heartbeat.born or not _is_supervisor(pid, cluster):
        return ""
    before = _stirring(pid)
    if before.state != STOPPED:
        time.sleep(LOOK_SECONDS)
    after = _stirring(pid)
    why = why_still(heartbeat, before, after, time.monotonic())
    if not why:
        return ""
    if after.state == STOPPED:
        signal.pidfd_send_signal(handle, signal.SIGCONT)
        return f"The supervisor {why}, and was continued."
    signal.pidfd_send_signal(handle, signal.SIGKILL)
    if not select.select([handle], [], [], END_SECONDS)[0]:
        raise MachineError(
            f"The supervisor of cluster {cluster!r}, process {pid}, {why} and cannot be ended",
            "check the disk of WORKBENCH_HOME, or restart this machine.",
        )
    return f"The supervisor {why}, and was replaced."


def _stirring(pid: int) -> Stirring:
    """Read the state of the main thread, which runs the loop."""
    fields = _fields(pid)
    switches, traced = 0, False
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/task/{pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.endswith("ctxt_switches"):
                switches += int(value)
            elif name == "TracerPid":
                traced = int(value) != 0
    return Stirring(fields[0] if fields else "", switches, traced)


def _fields(pid: int) -> list[str]:
    """Return the fields after the name in /proc/PID/stat."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []


def _is_supervisor(pid: int, cluster: str) -> bool:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        is_ours = Path(f"/proc/{pid}").stat().st_uid == os.geteuid()
        return is_ours and b"workbench.supervisor" in words and cluster.encode() in words
    return False
