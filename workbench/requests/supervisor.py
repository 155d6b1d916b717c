"""Start the supervisor of a cluster, keep it awake, and replace one that hangs.

It is identified by pid, start time and command line, so no other process is ever signalled.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from workbench import __version__
from workbench.core.cluster.model import ClusterState
from workbench.core.supervisor.heartbeat import (
    STOPPED,
    Heartbeat,
    Stirring,
    is_late,
    read_heartbeat,
    version_remark,
    why_still,
)
from workbench.core.world.world import WORLD_VARIABLE
from workbench.errors import ClusterError, MachineError, WorkbenchError
from workbench.store.paths import KEPT_VARIABLE, cluster_directory, owners_only
from workbench.store.store import Store

LOCK_NAME = "supervisor.lock"
LOG_NAME = "supervisor.log"
FORMER_LOG_NAME = "supervisor.log.1"
HEARTBEAT_NAME = "heartbeat.json"
# For debugging: a supervisor under a debugger is not continued, ended or replaced.
VARIABLE = "WORKBENCH_WATCHDOG"
LOOK_SECONDS = 2.0
END_SECONDS = 10.0
CARE_SECONDS = 1.0
WAKING_SECONDS = 5.0
BIRTH_SECONDS = 120.0
"""A supervisor that starts on a busy machine is waited for so long."""
MOST_WAKINGS = 5
WOKEN = "The supervisor had ended and was restarted."


def supervisor_is_awake(cluster: str) -> bool:
    """Whether a supervisor holds the lock of ``cluster``."""
    path = cluster_directory(cluster) / LOCK_NAME
    if not path.exists():
        return False
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def supervisor_is_starting(cluster: str) -> bool:
    """Whether a process is there that is to become the supervisor of ``cluster``.

    It is known by its log: other data directories may have a cluster of the same name.
    """
    folder = cluster_directory(cluster).resolve()
    found = (int(name) for name in os.listdir("/proc") if name.isdecimal())
    return any(
        _is_supervisor(pid, cluster) and _output_of(pid).parent == folder
        for pid in found
        if pid != os.getpid()
    )


def supervisor_pid(cluster: str) -> int:
    """Return the process id of the supervisor of ``cluster``; 0 if none is alive."""
    heartbeat = last_heartbeat(cluster_directory(cluster))
    if heartbeat is None or heartbeat.boot != boot_id():
        return 0
    pid = heartbeat.pid
    return pid if birth(pid) == heartbeat.born and _is_supervisor(pid, cluster) else 0


def other_version(cluster: str) -> str:
    """Return a sentence if the supervisor is of another workbench than this process; or empty."""
    heartbeat = last_heartbeat(cluster_directory(cluster))
    if heartbeat is None or not supervisor_pid(cluster):
        return ""
    return version_remark(cluster, heartbeat, __version__)


def wake_supervisor(cluster: str) -> None:
    """Start the supervisor of ``cluster`` unless one is alive; it outlives this process.

    A stopped one is continued, and one that hangs is replaced. None is started where another
    process does so (``KEPT_VARIABLE``).

    Raises:
        MachineError: The process could not be started, or one that hangs could not be ended.
    """
    if supervisor_is_awake(cluster):
        rouse(cluster)
        if supervisor_is_awake(cluster):
            return
    if KEPT_VARIABLE in os.environ:
        return
    _forget_state(cluster)
    # The module forks and its first process returns at once, so nothing of it is our child.
    log = cluster_directory(cluster) / LOG_NAME
    try:
        with open(log, "ab", opener=owners_only) as file:
            subprocess.run(
                [sys.executable, "-m", "workbench.supervisor", cluster],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
                # Even if a rank asks for it, it is not part of that rank's world.
                env={k: v for k, v in os.environ.items() if k != WORLD_VARIABLE},
                cwd="/",
                check=True,
            )
    except (OSError, subprocess.CalledProcessError) as error:
        raise MachineError(
            f"The supervisor of cluster {cluster!r} could not be started ({error})", f"see {log}."
        ) from error


def _forget_state(cluster: str) -> None:
    """Let no view call a cluster ready before the next supervisor has looked at it."""
    with contextlib.suppress(WorkbenchError), Store() as store:  # the supervisor reports it
        fact = store.cluster_fact(cluster)
        if fact.state in (ClusterState.READY, ClusterState.RESIZING):
            message = "Its supervisor had ended, and another one looks at what still runs."
            store.put_cluster_fact(
                replace(fact, state=ClusterState.STARTING, ranks=0, message=message)
            )


def store_failure(store: Store, cluster: str, message: str) -> None:
    """Store why the cluster has failed; ignored if the store is what failed."""
    with contextlib.suppress(WorkbenchError):
        fact = store.cluster_fact(cluster)
        store.put_cluster_fact(
            replace(
                fact, state=ClusterState.FAILED, message=message, supervisor=0, updated=time.time()
            )
        )


def keep_awake(store: Store, cluster: str) -> None:
    """Restart a supervisor that died or hangs, if it has work to do."""
    if not has_work(store, cluster):
        return
    if not (supervisor_is_awake(cluster) and not rouse(cluster)):
        wake_supervisor(cluster)


class SupervisorMonitor:
    """Restarts the supervisor of ``cluster`` when it has died or hangs.

    Args:
        cluster: The cluster's name.
        now: Seconds of a monotonic clock.
        waking: Seconds in which a supervisor that was just started takes its lock.
    """

    def __init__(self, cluster: str, now: float, waking: float = WAKING_SECONDS) -> None:
        self._cluster = cluster
        self._waking = waking
        self._next = now + waking
        self._patience = now + BIRTH_SECONDS
        self._wakings = 0

    def look(self, now: float) -> str:
        """Check about once a second; return one sentence on what was done, usually empty.

        Raises:
            ClusterError: It dies repeatedly.
            MachineError: It hangs and cannot be ended, or none could be started.
        """
        if now < self._next:
            return ""
        self._next = now + CARE_SECONDS
        if supervisor_is_awake(self._cluster):
            self._wakings, self._patience = 0, now + BIRTH_SECONDS
            done = rouse(self._cluster)
            if done and not supervisor_is_awake(self._cluster):
                wake_supervisor(self._cluster)
            return done
        if now < self._patience and supervisor_is_starting(self._cluster):
            return ""
        if self._wakings == MOST_WAKINGS:
            raise ClusterError(
                f"The supervisor of cluster {self._cluster!r} ends as soon as it starts",
                f"see why with `workbench logs --supervisor --cluster {self._cluster}`.",
            )
        wake_supervisor(self._cluster)
        self._wakings += 1
        self._next = now + self._waking
        return WOKEN


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


def _output_of(pid: int) -> Path:
    """Return the file that is the standard output of ``pid``; no file's path if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/fd/1").readlink()
    return Path()


def _is_supervisor(pid: int, cluster: str) -> bool:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        is_ours = Path(f"/proc/{pid}").stat().st_uid == os.geteuid()
        return is_ours and b"workbench.supervisor" in words and cluster.encode() in words
    return False
