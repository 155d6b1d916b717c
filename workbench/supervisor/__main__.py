"""Start the detached supervisor of one cluster: ``python -m … CLUSTER``."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.node.warm_ranks import WarmRanks

BIRTH_SECONDS = 120.0
_TAIL = 4096


def main() -> None:
    """Fork twice: the last child supervises, its parent waits until it has started."""
    if "--foreground" in sys.argv:
        _supervise(-1)
        return
    # The parent returns at once: the supervisor is adopted by init, which also reaps it.
    if os.fork():
        os._exit(0)
    reader, writer = os.pipe()
    if child := os.fork():
        os.close(writer)
        _attend(child, reader)
        os._exit(0)
    os.close(reader)
    _supervise(writer)


def _supervise(writer: int) -> None:
    forks = _start_forks(sys.argv[1])  # it imports what ranks need, meanwhile
    from workbench.supervisor.process import supervise

    def begun() -> None:
        if writer >= 0:
            os.write(writer, b"1")
            os.close(writer)

    supervise(sys.argv[1], begun, forks)


def _start_forks(cluster: str) -> WarmRanks | None:
    """Start the fork server of a cluster whose ranks are to run on this machine."""
    from workbench.errors import WorkbenchError
    from workbench.node.warm_ranks import forks_of
    from workbench.store import Store
    from workbench.store.paths import cluster_directory

    try:
        with Store() as store:
            wish = store.cluster_wish(cluster)
        if wish is None or not (wish.up and wish.ranks) or wish.fleet.place.is_remote:
            return None
    except WorkbenchError:
        return None  # the supervisor meets the same error, and reports it
    forks = forks_of(cluster_directory(cluster))
    forks.start()
    return forks


def _attend(child: int, reader: int) -> None:
    """Wait until the supervisor has started; if it ends before that, store the reason."""
    if not select.select([reader], [], [], BIRTH_SECONDS)[0] or os.read(reader, 1):
        return
    _, status = os.waitpid(child, 0)
    if status:
        _store_failed_start(sys.argv[1], status)


def _store_failed_start(cluster: str, status: int) -> None:
    """Store that a supervisor ended before it started its work.

    Args:
        status: As returned by ``os.waitpid``.
    """
    from workbench.errors import WorkbenchError
    from workbench.requests.supervisor import LOG_NAME, store_failure, supervisor_is_awake
    from workbench.store import Store
    from workbench.store.paths import cluster_directory

    with contextlib.suppress(WorkbenchError):
        log = cluster_directory(cluster) / LOG_NAME
        with Store() as store:
            if not supervisor_is_awake(cluster):
                store_failure(
                    store,
                    cluster,
                    f"The supervisor ended as it started ({_how(status, log)}); see {log}.",
                )


def _how(status: int, log: Path) -> str:
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL))
        lines = file.read().decode(errors="replace").strip().splitlines()
        if lines:
            return lines[-1].strip()[:300].rstrip(".")
    return f"exit status {os.waitstatus_to_exitcode(status)}"


if __name__ == "__main__":
    main()
