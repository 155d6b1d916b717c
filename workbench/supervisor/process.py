"""The supervisor as a process: its lock, its signals, its log, its end."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from workbench.cluster.profile import install_profile
from workbench.cluster.session import MpiCluster
from workbench.core.cluster import ClusterState
from workbench.errors import WorkbenchError
from workbench.store import Store
from workbench.store.home import cluster_directory
from workbench.store.wishes import LOCK_NAME
from workbench.supervisor.loop import Supervisor

log = logging.getLogger("workbench.supervisor")
NICENESS = 5


def supervise(cluster: str) -> None:
    """Supervise ``cluster`` until it is gone; return at once if another process does."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    folder = cluster_directory(cluster)
    with _locked(folder / LOCK_NAME) as mine:
        if not mine:
            return
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # The ranks need the cores more than their bookkeeping does.
        os.nice(NICENESS)
        log.info("supervising %s as process %d", cluster, os.getpid())
        with Store() as store:
            _work(store, cluster, folder)
        log.info("supervisor of %s ends", cluster)


def _work(store: Store, cluster: str, folder: Path) -> None:
    try:
        install_profile()
        supervisor = Supervisor(cluster, store, MpiCluster(folder))
        supervisor.open()
        while supervisor.tick():
            pass
    except WorkbenchError as error:
        log.error("%s", error)
        _say(store, cluster, str(error))
    except Exception as error:  # the process's outermost edge
        log.exception("the supervisor failed")
        _say(store, cluster, f"The supervisor failed ({error!r}); see its log.")


def _say(store: Store, cluster: str, message: str) -> None:
    """Leave a last word where people look; the store itself may be what failed."""
    with contextlib.suppress(WorkbenchError):
        fact = store.cluster_fact(cluster)
        store.put_cluster_fact(
            replace(fact, state=ClusterState.FAILED, message=message, supervisor=0)
        )


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    with path.open("a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
