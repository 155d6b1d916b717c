"""Store a supervisor's final message, also after a crash."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

from workbench.core.cluster.model import ClusterState
from workbench.errors import WorkbenchError
from workbench.requests.supervisor import LOG_NAME, supervisor_is_awake
from workbench.store import Store
from workbench.store.paths import cluster_directory

_TAIL = 4096


def store_failure(store: Store, cluster: str, message: str) -> None:
    """Store why the cluster has failed; ignored if the store is what failed."""
    with contextlib.suppress(WorkbenchError):
        fact = store.cluster_fact(cluster)
        store.put_cluster_fact(
            replace(
                fact, state=ClusterState.FAILED, message=message, supervisor=0, updated=time.time()
            )
        )


def store_failed_start(cluster: str, status: int) -> None:
    """Store that a supervisor ended before it started its work.

    Args:
        status: As returned by ``os.waitpid``.
    """
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
