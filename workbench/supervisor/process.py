"""The supervisor as a process: its lock, its signals, its log, its end."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from workbench.cluster.nodes import Login
from workbench.cluster.profile import install_profile
from workbench.cluster.session import MpiCluster
from workbench.core.cluster import ClusterState, ClusterWish
from workbench.core.fleet import Place
from workbench.core.session import Session
from workbench.errors import WorkbenchError
from workbench.store import Store
from workbench.store.home import cluster_directory
from workbench.store.wishes import LOCK_NAME, wake_supervisor
from workbench.supervisor.fleet import FleetKeeper
from workbench.supervisor.ground import Ground
from workbench.supervisor.loop import Supervisor
from workbench.supervisor.outputs import Outputs

log = logging.getLogger("workbench.supervisor")
LOCK_TRIES = 10


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
        log.info("supervising %s as process %d", cluster, os.getpid())
        with Store() as store:
            while _work(store, cluster, folder):
                log.info("%s was asked for again while it was taken down", cluster)
        log.info("supervisor of %s ends", cluster)
    with Store() as store:
        # Asked for between that look and the lock's end: whoever asked saw the lock still held.
        if _is_wanted(store, cluster):
            wake_supervisor(cluster)


def _work(store: Store, cluster: str, folder: Path) -> bool:
    """Supervise to the end; true if the cluster is wanted again by then."""
    try:
        install_profile()
        ground = Ground(lambda wish: _keeper_of(wish, store, mpi, outputs))
        mpi = MpiCluster(folder, ground.reach, lambda hosts: _login_of(cluster), mark=ground.mark)
        outputs = Outputs(cluster, ground.reach, folder)
        supervisor = Supervisor(cluster, store, mpi, ground=ground, outputs=outputs)
        supervisor.open()
        while supervisor.tick():
            pass
        return _is_wanted(store, cluster)
    except WorkbenchError as error:
        log.error("%s", error)
        _say(store, cluster, str(error))
    except Exception as error:  # the process's outermost edge
        log.exception("the supervisor failed")
        _say(store, cluster, f"The supervisor failed ({error!r}); see its log.")
    return False


def _keeper_of(wish: ClusterWish, store: Store, mpi: MpiCluster, outputs: Outputs) -> FleetKeeper:
    # What talks to other machines takes long to load, and most clusters have none.
    from workbench.supervisor.places import lender_of

    if wish.fleet.place is not Place.HOSTS:
        return FleetKeeper(wish.name, store, lender_of(wish, store), save=outputs.flush)

    # They go on without us; what was bought is gone, with all that was on it.
    def leave(session: Session) -> None:
        outputs.flush(session)
        mpi.leave(session)

    lender = lender_of(wish, store)
    return FleetKeeper(wish.name, store, lender, leave=leave, save=outputs.flush)


def _login_of(cluster: str) -> Login:
    from workbench.supervisor.keys import login_of

    return login_of(cluster)


def _is_wanted(store: Store, cluster: str) -> bool:
    wish = store.cluster_wish(cluster)
    failed = store.cluster_fact(cluster).state is ClusterState.FAILED
    return wish is not None and wish.up and not failed


def _say(store: Store, cluster: str, message: str) -> None:
    """Leave a last word where people look; the store itself may be what failed."""
    with contextlib.suppress(WorkbenchError):
        fact = store.cluster_fact(cluster)
        store.put_cluster_fact(
            replace(
                fact, state=ClusterState.FAILED, message=message, supervisor=0, updated=time.time()
            )
        )


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Hold the lock, or not; whoever only asks whether it is held holds it for an instant."""
    with path.open("a+b") as file:
        yield any(_try_lock(file, attempt) for attempt in range(LOCK_TRIES))


def _try_lock(file: BinaryIO, attempt: int) -> bool:
    if attempt:
        time.sleep(0.05)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
