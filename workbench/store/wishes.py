"""Check what a person asked for, write it as a wish, and see that a supervisor is awake.

The notebook, the command line and the server all ask through these functions, so that a cell, a
button and a command mean the same.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import subprocess
import sys
import time
import tokenize
from dataclasses import asdict, replace
from pathlib import Path

from workbench.core.cluster import (
    DEFAULT_CLUSTER,
    THIS_MACHINE,
    ClusterState,
    ClusterWish,
    RankFact,
    check_cluster_name,
)
from workbench.core.diagnosis import Finding
from workbench.core.fleet import FleetWish, Place
from workbench.core.fleetworld import KNOWN, check_fleet, wished_world
from workbench.core.growth import refuse_unasked
from workbench.core.run import RunKind, RunWish, check_run_name
from workbench.core.world import Host, World
from workbench.errors import InputError, MachineError, StateError, Unknown
from workbench.store.folders import placed
from workbench.store.home import cluster_directory, home_path
from workbench.store.store import Store

LOCK_NAME = "supervisor.lock"
LOG_NAME = "supervisor.log"


def local_slots() -> int:
    """Return how many ranks this machine carries without oversubscription."""
    return len(os.sched_getaffinity(0))


def local_hosts() -> tuple[Host, ...]:
    """Return this machine as the only host."""
    return (Host("localhost", local_slots()),)


def ask_cluster(
    store: Store,
    ranks: int | None = None,
    *,
    cluster: str = DEFAULT_CLUSTER,
    oversubscribe: bool = False,
    fleet: FleetWish | None = None,
) -> ClusterWish:
    """Wish for ``cluster`` to be up with ``ranks`` ranks (default: what it had, else all slots).

    Args:
        fleet: The nodes that are to carry it; None for those that it had, else this machine.

    Raises:
        InputError: The size, the nodes or the name will not do.
        StateError: It stands on nodes of another place; or it was deleted, or its time to live
            is over, and nothing was said of nodes.
        MachineError: No supervisor could be started.
    """
    check_cluster_name(cluster)
    before = store.cluster_wish(cluster)
    if fleet is None and before is not None:
        refuse_unasked(before, time.time())
    if fleet is not None:
        fleet = placed(fleet, before)
        _check_place(store, before, check_fleet(fleet))
        if ranks is None and (before is None or before.fleet != fleet):
            ranks = 0 if fleet.place is not Place.LOCAL else None
    fleet = fleet or (before.fleet if before else THIS_MACHINE)
    world = _wished_world(before, ranks, oversubscribe, fleet)
    if before is None or before.fleet != fleet or _is_news(store, before, world):
        before = store.wish_cluster(
            cluster,
            up=True,
            ranks=world.size,
            oversubscribe=world.oversubscribe,
            fleet=fleet,
        )
    wake_supervisor(cluster)
    return before


def ask_nodes(store: Store, nodes: int, *, cluster: str = DEFAULT_CLUSTER) -> ClusterWish:
    """Wish for another number of nodes; with 0 the definition stays and nothing is paid.

    Raises:
        InputError: There cannot be as many.
        Unknown: Nobody ever asked for this cluster.
        StateError: It was deleted and costs money, or its time to live is over.
    """
    wish = store.cluster_wish(check_cluster_name(cluster))
    if wish is None:
        raise Unknown(f"There is no cluster called {cluster!r}; start it first.")
    if wish.fleet.place is Place.LOCAL:
        raise InputError(
            f"Cluster {cluster!r} is this machine alone; give it another number of ranks instead."
        )
    refuse_unasked(wish, time.time())
    least = min(wish.fleet.least, max(nodes, 1))
    fleet = replace(wish.fleet, nodes=nodes, least=least)
    return ask_cluster(store, 0, cluster=cluster, oversubscribe=wish.oversubscribe, fleet=fleet)


def ask_down(store: Store, *, cluster: str = DEFAULT_CLUSTER) -> None:
    """Wish for ``cluster`` to be gone; its unfinished runs are stopped.

    Raises:
        Unknown: Nobody ever asked for this cluster.
    """
    wish = store.cluster_wish(cluster)
    if wish is None:
        raise Unknown(f"There is no cluster called {cluster!r}; nothing was taken down.")
    store.wish_cluster(cluster, up=False, ranks=wish.ranks, oversubscribe=wish.oversubscribe)
    if store.cluster_fact(cluster).state != "down":
        wake_supervisor(cluster)


def ask_run(
    store: Store,
    *,
    kind: RunKind,
    source: str,
    cluster: str = DEFAULT_CLUSTER,
    name: str | None = None,
    path: str = "",
    folder: str = "",
    arguments: tuple[str, ...] = (),
    parameters: tuple[tuple[str, object], ...] = (),
    environment: tuple[tuple[str, str], ...] = (),
    ranks: int | None = None,
    oversubscribe: bool = False,
    grace: float = 5.0,
    wall_clock_limit: float = 0.0,
) -> RunWish:
    """Queue a run on ``cluster``, which is started or grown if need be.

    Args:
        ranks: Ranks to run on; None for all that the cluster has. More than it has grows it.

    Raises:
        InputError: An option will not do; nothing was started.
        StateError: The name is in use; or the cluster was deleted and costs money, or its time
            to live is over.
    """
    check_cluster_name(cluster)
    now = time.time()
    run = new_run_id(now)
    name = check_run_name(name) if name else run
    if grace < 0:
        raise InputError(f"grace must be at least 0 seconds, not {grace:g}.")
    before = store.cluster_wish(cluster)
    if before is not None:
        refuse_unasked(before, now)
    fleet = before.fleet if before else THIS_MACHINE
    has = before.ranks if before else 0
    if ranks is not None:
        oversubscribe = oversubscribe or bool(before and before.oversubscribe and ranks <= has)
        wished_world(fleet, local_hosts(), ranks, oversubscribe)
    grows = ranks is not None and (before is None or not before.up or ranks > has)
    grows = grows and fleet.place in KNOWN
    world = _wished_world(before, ranks if grows else None, oversubscribe, fleet)
    wish = store.wish_run(
        RunWish(
            id=run,
            name=name,
            kind=kind,
            source=source,
            cluster=cluster,
            path=path,
            folder=folder or os.getcwd(),
            arguments=arguments,
            parameters=parameters,
            environment=environment,
            ranks=ranks or 0,
            grace=grace,
            wall_clock_limit=wall_clock_limit,
            created=now,
        ),
        world if before is None or _is_news(store, before, world) else None,
    )
    wake_supervisor(cluster)
    return wish


def _is_news(store: Store, before: ClusterWish, world: World) -> bool:
    """Whether ``world`` is not what stands already, or what stands has given up."""
    gave_up = store.cluster_fact(before.name).state is ClusterState.FAILED
    return not before.up or before.ranks != world.size or gave_up


def _wished_world(
    before: ClusterWish | None, ranks: int | None, oversubscribe: bool, fleet: FleetWish
) -> World:
    """Lay out ``ranks`` ranks, or as many as were wished for before, else one a slot."""
    if ranks is None:
        ranks = before.ranks if before else max(2, local_slots())
        oversubscribe = oversubscribe or (before.oversubscribe if before else local_slots() < 2)
    return wished_world(fleet, local_hosts(), ranks, oversubscribe)


def _check_place(store: Store, before: ClusterWish | None, fleet: FleetWish) -> None:
    """Refuse to leave nodes behind that nobody would look after."""
    if before is None or before.fleet.place is fleet.place:
        return
    if before.up or store.cluster_fact(before.name).state is not ClusterState.DOWN:
        raise StateError(
            f"Cluster {before.name!r} has nodes of another place ({before.fleet.place}); "
            "delete it first (workbench down), or choose another name with --cluster."
        )


def ask_doctor(cluster: str = DEFAULT_CLUSTER) -> list[Finding]:
    """Return what the doctor finds on this machine and on the ranks of ``cluster``.

    Raises:
        MachineError: The doctor itself cannot run.
    """
    ranks: list[RankFact] = []
    ours: list[Finding] = []
    try:
        with Store() as store:
            ranks = store.ranks(cluster, store.cluster_fact(cluster).generation)
    except MachineError as error:
        found, _, remedy = str(error).rpartition("; ")
        ours.append(Finding("store", False, found, remedy[:1].upper() + remedy[1:]))
    options = ["--json", "--ranks", "-", "--data", str(home_path())]
    answer = subprocess.run(
        [sys.executable, "-m", "workbench.cluster.doctor", *options],
        input=json.dumps([asdict(rank) for rank in ranks]),
        capture_output=True,
        text=True,
        check=False,
    )
    if not answer.stdout.startswith("["):
        last = (answer.stderr.strip().splitlines() or ["without a word"])[-1]
        raise MachineError(f"The doctor ended: {last}; reinstall workbench into {sys.prefix}.")
    return [Finding(**item) for item in json.loads(answer.stdout)] + ours


def script_source(path: str) -> tuple[str, str]:
    """Return a script's absolute path and text.

    Raises:
        InputError: It cannot be read, or does not compile.
    """
    absolute = Path(path).expanduser().absolute()
    try:
        with tokenize.open(absolute) as file:  # honours a byte order mark and a coding line
            source = file.read()
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text in UTF-8 or as its first line says"
        raise InputError(f"The script {absolute} cannot be read ({reason}).") from error
    check_source(source, str(absolute))
    return str(absolute), source


def check_source(source: str, where: str) -> None:
    """Refuse Python that does not compile, before anything is started.

    Raises:
        InputError: With the line and what Python says about it.
    """
    try:
        compile(source, where, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        text = "".join(source.split("\n")[line - 1 : line]).strip() if line else ""
        place = f"{where}, line {line}: " if line else f"{where}: "
        reason = getattr(error, "msg", None) or str(error)
        shown = f": {text!r}" if text else ""
        raise InputError(f"{place}{reason}{shown}; nothing was started.") from error


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


def wake_supervisor(cluster: str) -> None:
    """Start the supervisor of ``cluster`` unless one is awake; it outlives this process.

    Raises:
        MachineError: The process could not be started.
    """
    if supervisor_is_awake(cluster):
        return
    # The module forks and its first process returns at once, so nothing of it is our child.
    log = cluster_directory(cluster) / LOG_NAME
    try:
        with log.open("ab") as file:
            subprocess.run(
                [sys.executable, "-m", "workbench.supervisor", cluster],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
                cwd="/",
                check=True,
            )
    except (OSError, subprocess.CalledProcessError) as error:
        raise MachineError(
            f"The supervisor of cluster {cluster!r} could not be started ({error}); see {log}."
        ) from error


def new_run_id(now: float) -> str:
    """Return an id that sorts by time and is unique over machines."""
    moment = time.strftime("%y%m%d-%H%M%S", time.gmtime(now))
    return (
        f"{moment}-{''.join(secrets.choice('abcdefghijklmnopqrstuvwxyz234567') for _ in range(4))}"
    )
