"""Check a request, write it as a wish, and see that a supervisor is awake.

The notebook, the command line and the server all use these functions, so that a cell, a button and
a command do the same.
"""

from __future__ import annotations

import ast
import fcntl
import json
import os
import secrets
import subprocess
import sys
import time
import tokenize
from dataclasses import asdict
from functools import partial
from pathlib import Path

from workbench.core.cluster.model import (
    DEFAULT_CLUSTER,
    THIS_MACHINE,
    ClusterState,
    ClusterWish,
    check_cluster_name,
    shown_state,
)
from workbench.core.cluster.spending import refuse_ending
from workbench.core.cluster.target_world import KNOWN, wished_world
from workbench.core.fleet.model import LOCATED, FleetWish, Provider
from workbench.core.fleet.request import check_fleet
from workbench.core.node.findings import Finding
from workbench.core.run.model import RunKind, RunWish, check_run_name
from workbench.core.world.world import WORLD_VARIABLE, Host, RankFact, World
from workbench.errors import InputError, MachineError, StateError, Unknown
from workbench.requests.data_folders import placed
from workbench.requests.store_check import examine_store
from workbench.requests.supervisor_lock import rouse
from workbench.store.paths import (
    FILE_NAME,
    cluster_directory,
    home_directory,
    home_path,
    owners_only,
)
from workbench.store.reserve import with_reserve
from workbench.store.store import Store

LOCK_NAME = "supervisor.lock"
LOG_NAME = "supervisor.log"
FORMER_LOG_NAME = "supervisor.log.1"


def local_slots() -> int:
    """Return how many ranks this machine runs without oversubscription."""
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
    """Request that ``cluster`` is up with ``ranks`` ranks (default: unchanged, else all slots).

    Args:
        fleet: Its nodes; None for the present ones, else this machine.

    Raises:
        InputError: The size, the nodes or the name is not valid.
        StateError: Its nodes are of another provider, or it has expired.
        MachineError: No supervisor could be started.
    """
    check_cluster_name(cluster)
    before = store.cluster_wish(cluster)
    has = _standing(before)
    if fleet is not None:
        fleet = check_fleet(placed(fleet, has))
    elif has is not None:
        refuse_ending(has, time.time())
    fleet = fleet or (has.fleet if has else THIS_MACHINE)
    check_place(store, before, fleet)
    if (
        ranks is None
        and fleet.provider is not Provider.THIS_MACHINE
        and (has is None or has.fleet != fleet)
    ):
        ranks = 0
    world = _wished_world(has, ranks, oversubscribe, fleet)
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


def ask_down(store: Store, *, cluster: str = DEFAULT_CLUSTER) -> None:
    """Request that ``cluster`` is deleted; its unfinished runs are stopped.

    This works on a full disk too.

    Raises:
        Unknown: There is no such cluster.
    """
    wish = store.cluster_wish(cluster)
    if wish is None:
        raise Unknown(f"There is no cluster {cluster!r}; nothing was deleted.")
    gone = partial(
        store.wish_cluster, cluster, up=False, ranks=wish.ranks, oversubscribe=wish.oversubscribe
    )
    with_reserve(store.path, gone)
    if store.cluster_fact(cluster).state != "down":
        wake_supervisor(cluster)


def remove_cluster(store: Store, *, cluster: str = DEFAULT_CLUSTER) -> None:
    """Remove a deleted cluster from all lists; its runs are kept.

    Raises:
        Unknown: There is no such cluster.
        StateError: It is not deleted.
    """
    wish = store.cluster_wish(check_cluster_name(cluster))
    if wish is None:
        raise Unknown(f"There is no cluster {cluster!r}.")
    if not with_reserve(store.path, partial(store.forget_cluster, cluster)):
        state = shown_state(wish, store.cluster_fact(cluster))
        raise StateError(f"Cluster {cluster!r} is {state}, not deleted; delete it first.")


def is_deleted(store: Store, cluster: str) -> bool:
    """Whether ``cluster`` is listed but deleted, with nothing left."""
    wish = store.cluster_wish(cluster)
    is_down = store.cluster_fact(cluster).state is ClusterState.DOWN
    return wish is not None and not wish.up and is_down


def store_to_leave() -> Store:
    """Open the store for a deletion, on a full disk too.

    Raises:
        MachineError: It cannot be opened.
    """
    return with_reserve(home_directory() / FILE_NAME, Store)


def ask_run(
    store: Store,
    *,
    kind: RunKind,
    source: str,
    cluster: str = DEFAULT_CLUSTER,
    name: str | None = None,
    setup: str = "",
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
    """Queue a run on ``cluster``, which is started or grown if necessary.

    Args:
        setup: The set-up cell's own name; empty for every other run.
        ranks: Ranks to run on; None for all. More than the cluster has grows it.

    Raises:
        InputError: An option is not valid; nothing was started.
        StateError: The name is in use, the cluster has expired, or its nodes are still being
            deleted.
    """
    check_cluster_name(cluster)
    now = time.time()
    run = new_run_id(now)
    name = check_run_name(name) if name else run
    if grace < 0:
        raise InputError(f"grace must be at least 0 seconds, not {grace:g}.")
    before = store.cluster_wish(cluster)
    has = _standing(before)
    if has is not None:
        refuse_ending(has, now)
    fleet = has.fleet if has else THIS_MACHINE
    check_place(store, before, fleet)
    if ranks is not None:
        oversubscribe = oversubscribe or bool(has and has.oversubscribe and ranks <= has.ranks)
        wished_world(fleet, local_hosts(), ranks, oversubscribe)
    grows = ranks is not None and (has is None or not has.up or ranks > has.ranks)
    grows = grows and fleet.provider in KNOWN
    world = _wished_world(has, ranks if grows else None, oversubscribe, fleet)
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
            setup=setup,
        ),
        world if before is None or _is_news(store, before, world) else None,
        fleet,
    )
    wake_supervisor(cluster)
    return wish


def _standing(before: ClusterWish | None) -> ClusterWish | None:
    """Return the desired state; of a deleted cluster only its size on this machine."""
    here = before is not None and before.fleet.provider is Provider.THIS_MACHINE
    return before if before and (before.up or here) else None


def _is_news(store: Store, before: ClusterWish, world: World) -> bool:
    """Whether ``world`` differs from the present one, or that has failed."""
    gave_up = store.cluster_fact(before.name).state is ClusterState.FAILED
    return not before.up or before.ranks != world.size or gave_up


def _wished_world(
    before: ClusterWish | None, ranks: int | None, oversubscribe: bool, fleet: FleetWish
) -> World:
    """Lay out ``ranks`` ranks (default: as before, else one per slot)."""
    if ranks is None:
        ranks = before.ranks if before else max(2, local_slots())
        oversubscribe = oversubscribe or (before.oversubscribe if before else local_slots() < 2)
    return wished_world(fleet, local_hosts(), ranks, oversubscribe)


def check_place(store: Store, before: ClusterWish | None, fleet: FleetWish) -> None:
    """Refuse a change of provider that would leave nodes unmanaged.

    Raises:
        StateError: The cluster has another provider or region.
    """
    if before is None:
        return
    there, place = before.fleet.region, f"{LOCATED[before.fleet.provider]}"
    moves = before.fleet.provider is not fleet.provider
    if before.up and (moves or (there and fleet.region not in ("", there))):
        where = place if moves else f"in {there}"
        raise StateError(
            f"Cluster {before.name!r} is {where}",
            "delete it first (`workbench delete`), or choose another name with --cluster.",
        )
    is_down = store.cluster_fact(before.name).state is ClusterState.DOWN
    if moves and not (is_down and not store.nodes(before.name)):
        raise StateError(
            f"Cluster {before.name!r} {place} is still being deleted",
            "try again when it is gone, or choose another name with --cluster.",
        )


def ask_doctor(cluster: str = DEFAULT_CLUSTER) -> list[Finding]:
    """Return the doctor's findings for this machine and the ranks of ``cluster``.

    Raises:
        MachineError: The doctor cannot run.
    """
    ranks: list[RankFact] = []
    ours: list[Finding] = []
    try:
        with Store() as store:
            ranks = store.ranks(cluster, store.cluster_fact(cluster).generation)
            ours += examine_store(store)
    except MachineError as error:
        remedy = error.remedy[:1].upper() + error.remedy[1:]
        ours.append(Finding("store", False, error.what, remedy))
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
        with tokenize.open(absolute) as file:  # respects a byte order mark and a coding line
            source = file.read()
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text in UTF-8 or as its first line says"
        raise InputError(f"The script {absolute} cannot be read ({reason}).") from error
    check_source(source, str(absolute))
    return str(absolute), source


def check_source(source: str, where: str, *, awaits: bool = False) -> None:
    """Raise an error for Python that does not compile, before anything is started.

    Args:
        awaits: Whether ``await`` is allowed outside of functions, as in a cell.

    Raises:
        InputError: With the line and Python's message.
    """
    try:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if awaits else 0
        compile(source, where, "exec", flags, dont_inherit=True)
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
    """Start the supervisor of ``cluster`` unless one is alive; it outlives this process.

    A stopped one is continued, and one that hangs is replaced.

    Raises:
        MachineError: The process could not be started, or one that hangs could not be ended.
    """
    if supervisor_is_awake(cluster):
        rouse(cluster)
        if supervisor_is_awake(cluster):
            return
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
            f"The supervisor of cluster {cluster!r} could not be started ({error}); see {log}."
        ) from error


def new_run_id(now: float) -> str:
    """Return an id that sorts by time and is unique over machines."""
    moment = time.strftime("%y%m%d-%H%M%S", time.gmtime(now))
    return (
        f"{moment}-{''.join(secrets.choice('abcdefghijklmnopqrstuvwxyz234567') for _ in range(4))}"
    )
