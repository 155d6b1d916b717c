"""The supervisor as a process: its lock, signals, log and end."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from workbench.cloud.hosts.listed_hosts import addresses_of
from workbench.cloud.rented.ssh_keys import KeyRing
from workbench.cluster.mpi_cluster import MpiCluster
from workbench.cluster.profile import install_profile
from workbench.cluster.remote_hosts import Login
from workbench.core.cluster.model import ClusterState, ClusterWish
from workbench.core.fleet.model import FleetWish
from workbench.core.fleet.node_provider import ClusterContext, open_provider
from workbench.core.world.known_hosts import address_of, line_for
from workbench.core.world.remote import Session
from workbench.errors import StoreFull, StoreNewer, StoreTaken, WorkbenchError
from workbench.node.warm_ranks import WarmRanks
from workbench.requests.cluster import store_to_leave
from workbench.requests.supervisor import LOCK_NAME, LOG_NAME, store_failure, wake_supervisor
from workbench.store import Store
from workbench.store.disk import take_back_reserve
from workbench.store.paths import (
    cluster_directory,
    home_directory,
    owner_id,
    owners_only,
    trusted_lines,
)
from workbench.supervisor.data.run_files import RunFiles
from workbench.supervisor.fleet.fleet_loop import FleetKeeper
from workbench.supervisor.heartbeat import HeartbeatWriter
from workbench.supervisor.hosts import ClusterHosts
from workbench.supervisor.housekeeping import begin_log
from workbench.supervisor.loop import Supervisor

log = logging.getLogger("workbench.supervisor")
LOCK_TRIES = 10
# The folder of the cluster may be removed while it runs. Once is not enough: it may be moved back.
LOOK_SECONDS = 1.0
MOST_MISSES = 3
# An unexpected error may pass with a new process, as a lost connection does; after so many in a row
# the cluster has failed.
MOST_CRASHES = 3
STEADY_SECONDS = 60.0
CRASHES_VARIABLE = "WORKBENCH_SUPERVISOR_CRASHES"


def supervise(
    cluster: str, begun: Callable[[], None] = lambda: None, forks: WarmRanks | None = None
) -> None:
    """Supervise ``cluster`` until it is deleted; return at once if another process does.

    Args:
        begun: Called once errors are reported in the store from then on.
        forks: Its fork server, if it was started before.
    """
    folder = cluster_directory(cluster)
    begin_log(folder / LOG_NAME)
    with _hold_lock(folder / LOCK_NAME) as lock:
        if lock is None:
            return
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        log.info("The supervisor of cluster %r starts (process %d).", cluster, os.getpid())
        heartbeat = HeartbeatWriter(folder)
        with _open_store() as store:
            begun()
            while _work(store, cluster, folder, heartbeat, forks, lock):
                log.info("Cluster %r was started again during its deletion.", cluster)
        log.info("The supervisor of cluster %r ends.", cluster)
        if lock.is_gone():
            return
    with contextlib.suppress(StoreTaken):
        _wake_successor(cluster)


def _wake_successor(cluster: str) -> None:
    """Start another supervisor if one is needed: its starter may have seen the lock held."""
    try:
        with _open_store() as store:
            is_wanted = _is_wanted(store, cluster)
    except StoreNewer:
        is_wanted = True  # this Python may have been upgraded while it ran
    if is_wanted:
        wake_supervisor(cluster)


def _open_store() -> Store:
    """Open the store, also on a full disk: nodes that cost money must be deleted."""
    try:
        return Store()
    except StoreFull as error:
        log.error("%s", error)
        store = store_to_leave()
        take_back_reserve(store.path)  # what is left of it, for the wish to delete the cluster
        return store


def _work(
    store: Store,
    cluster: str,
    folder: Path,
    heartbeat: HeartbeatWriter,
    forks: WarmRanks | None,
    lock: ProcessLock,
) -> bool:
    """Supervise until the end; return true if the cluster is wanted again by then."""
    began = time.monotonic()
    supervisor: Supervisor | None = None
    try:
        install_profile()
        hosts = ClusterHosts(lambda wish: _keeper_of(wish, store, mpi, files))
        mpi = MpiCluster(
            folder,
            hosts.reach,
            lambda _: replace(login_of(cluster), relayed=hosts.relays),
            patience=lambda: hosts.patience,
            mark=hosts.mark,
            forks=forks,
        )
        files = RunFiles(cluster, hosts.reach, folder)
        supervisor = Supervisor(cluster, store, mpi, hosts=hosts, files=files, heartbeat=heartbeat)
        mpi.meanwhile = supervisor.meanwhile
        supervisor.open()
        while not lock.is_gone() and supervisor.tick():
            pass
        if not lock.is_gone():
            heartbeat.end()
            return _is_wanted(store, cluster)
    except StoreNewer as error:
        log.error("%s", error)  # the store's message is for a newer workbench to write
        return False
    except StoreTaken as error:
        log.error("%s", error)
        if supervisor is not None:
            supervisor.abandon(keeps_nodes=True)  # they are the other machine's now
        return False
    except WorkbenchError as error:
        log.error("%s", error)
        if not lock.is_gone():
            store_failure(store, cluster, str(error))
    except Exception as error:  # the process's outermost edge
        log.exception("The supervisor failed.")
        if not lock.is_gone():
            if may_start_again(time.monotonic() - began):
                return False
            store_failure(store, cluster, f"The supervisor failed ({error!r}); see its log.")
    if not lock.is_gone():
        heartbeat.end()
    elif supervisor is not None:
        log.error("%s was removed: all of cluster %r is ended.", folder, cluster)
        supervisor.abandon()
    return False


def may_start_again(worked: float) -> bool:
    """Return whether another supervisor follows one that crashed; counts in its environment.

    Args:
        worked: Seconds until the crash.
    """
    before = 0 if worked >= STEADY_SECONDS else int(os.environ.get(CRASHES_VARIABLE, "0"))
    os.environ[CRASHES_VARIABLE] = str(before + 1)
    return before < MOST_CRASHES


def _keeper_of(wish: ClusterWish, store: Store, mpi: MpiCluster, files: RunFiles) -> FleetKeeper:
    provider = open_provider(cluster_context(wish, store))
    if not wish.fleet.place.lists_hosts:
        return FleetKeeper(
            wish.name,
            store,
            provider,
            save=files.flush,
            received=files.take_received,
        )

    # Other hosts are kept as they are; a rented node is deleted with all that is on it.
    def leave(session: Session) -> None:
        files.flush(session)
        mpi.leave(session)

    return FleetKeeper(wish.name, store, provider, leave=leave, save=files.flush)


def _is_wanted(store: Store, cluster: str) -> bool:
    wish = store.cluster_wish(cluster)
    failed = store.cluster_fact(cluster).state is ClusterState.FAILED
    return wish is not None and wish.up and not failed


class ProcessLock:
    """The lock of a cluster's supervisor, held.

    Args:
        path: Of its file, which is removed only with the folder of the cluster.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._file = path, file
        self._looked, self._missed = 0.0, 0

    def is_gone(self) -> bool:
        """Return whether its file, looked at once a second, was removed or replaced."""
        now = time.monotonic()
        if self._missed < MOST_MISSES and now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._missed = 0 if self._is_there() else self._missed + 1
        return self._missed >= MOST_MISSES

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # a server of files that does not answer now
            return True


@contextlib.contextmanager
def _hold_lock(path: Path) -> Iterator[ProcessLock | None]:
    """Try to take the lock; yield None if it is not free. A mere check holds it for an instant."""
    with open(path, "a+b", opener=owners_only) as file:
        held = any(_try_lock(file, attempt) for attempt in range(LOCK_TRIES))
        yield ProcessLock(path, file) if held else None


def _try_lock(file: BinaryIO, attempt: int) -> bool:
    if attempt:
        time.sleep(0.05)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def cluster_context(wish: ClusterWish, store: Store) -> ClusterContext:
    """Return the context of a cluster; its wish is read from the store each time."""

    def present() -> FleetWish:
        now = store.cluster_wish(wish.name)
        return now.fleet if now is not None else wish.fleet

    def sent(token: str) -> str:
        found = store.fleets.read_sent(wish.name, token)
        return found[0] if found else ""

    return ClusterContext(
        wish.name,
        present,
        home_directory(),
        cluster_directory(wish.name),
        owner_id(),
        sent,
        lambda: trusted_lines(wish.name),
    )


def login_of(cluster: str) -> Login:
    """Return what the head of a world needs to start daemons on the other nodes."""
    ring = KeyRing(cluster_directory(cluster))
    confirmed = trusted_lines(cluster)
    # Nodes reach each other by address; the user may have confirmed the key of a name.
    by_address = (
        line_for(line, address) for line in confirmed for address in addresses_of(address_of(line))
    )
    # One that the user confirmed for the same address counts more, and a rented node's is newer.
    lines = {line.split()[0]: line for line in (*by_address, *confirmed, *ring.lines())}
    return Login(tuple(lines.values()), ring.private)
