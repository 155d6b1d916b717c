"""Request that a run which has ended continues from its newest snapshot."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workbench.core.cluster.model import check_cluster_name
from workbench.core.fleet.model import FleetWish
from workbench.core.fleet.request import DEFAULT_TTL
from workbench.core.options.table import TRAIN, options_of
from workbench.core.recovery.resumption import NONE, is_resumable
from workbench.core.run.model import Run, RunKind, RunWish
from workbench.core.run.origin import Origin
from workbench.errors import InputError, StateError
from workbench.requests.run import origin_here, world_for
from workbench.requests.supervisor import wake_supervisor
from workbench.store import Store
from workbench.store.paths import snapshot_directory

_NAMES = {RunKind.SETUP: "set-up cell", RunKind.MEASUREMENT: "measurement"}
_SAVERS = (
    "run it again; loops of workbench.elastic save snapshots, and trainings by Chainer's Trainer, "
    "on several ranks with a multi-node optimizer."
)


def check_kept(options: Mapping[str, object]) -> None:
    """Refuse options that a resumed run keeps from its request.

    Args:
        options: By name, as in code; those that are empty were not given.

    Raises:
        InputError: One was given.
    """
    for option in (*options_of("run"), *options_of(TRAIN)):
        if (option.is_kept or option.variable) and options.get(option.name):
            raise InputError(
                f"{option.spellings[-1]} cannot change when a run is resumed", "leave it out."
            )


def ask_resume(
    store: Store,
    name: str,
    given: Mapping[str, Any] | None = None,
    *,
    cluster: str | None = None,
    source: str | None = None,
    path: str | None = None,
    oversubscribe: bool = False,
    from_here: bool = False,
    module: str | None = None,
) -> RunWish:
    """Queue the next attempt of a run, which continues from its newest snapshot.

    What is not given stays as it was requested before.

    Args:
        name: Its name or id.
        given: The fields of its ``RunOptions`` that change, see ``RunOptions.changed``.
        cluster: Where it continues; None for the cluster that it had.
        source: Replaces the run's source: the cell's text, or the script's with its ``path``.
        oversubscribe: Whether the cluster's hosts may get more ranks than they have slots.
        from_here: Whether this process's variables and notebook replace those of its request.
        module: The dotted name of the script that replaces the source, if it is a module.

    Raises:
        InputError: An option is not valid; nothing was started.
        Unknown: There is no such run.
        StateError: It has not ended, or has no snapshot; or its cluster has expired, or has no
            longer the nodes on which it ran.
    """
    run, now, given = store.run(name), time.time(), given or {}
    _check_run(run)
    cluster = check_cluster_name(cluster or run.wish.cluster)
    if cluster == run.wish.cluster:
        _check_nodes(store, run)
    _check_source(run, source, path)
    options = run.wish.options.changed(given)
    options.check()
    world, fleet = world_for(store, cluster, given.get("ranks"), oversubscribe, now)
    iteration = _snapshot_of(store, run, fleet)
    where = "its newest snapshot" if iteration == NONE else f"iteration {iteration:,}"
    message = "The script starts again." if run.wish.restarts else f"Continues from {where}."
    wish = replace(
        run.wish,
        cluster=cluster,
        source=run.wish.source if source is None else source,
        path=run.wish.path if path is None else path,
        options=options,
        created=now,
        stop=False,
        origin=_origin(store, run, cluster, module) if from_here else run.wish.origin,
    )
    store.attempts.resume_run(run.fact, message, wish, world, fleet)
    wake_supervisor(cluster)
    return wish


def nodes_to_bring_back(store: Store, run: Run, now: float) -> FleetWish | None:
    """Return the nodes that a run had, if its cluster has none now; None if nothing is missing.

    Args:
        now: Epoch seconds; paid nodes get the default time to live from then on.

    Raises:
        StateError: It has not ended, or has no snapshot.
    """
    _check_run(run)
    wish = store.cluster_wish(run.wish.cluster)
    if wish is None or not wish.fleet.place.has_nodes:
        return None
    fleet = wish.fleet
    if wish.up and fleet.nodes and not 0 < fleet.expires <= now:
        return None
    _snapshot_of(store, run, fleet)  # before anything is paid for
    nodes = fleet.nodes or len(_addresses(store, run)) or 1
    if fleet.place.lists_hosts:
        nodes = min(nodes, len(fleet.hosts))
    is_over = fleet.expires <= now
    lives = now + DEFAULT_TTL if fleet.place.is_charged else 0.0
    return replace(
        fleet,
        nodes=nodes,
        min_nodes=min(fleet.min_nodes, nodes),
        expires=lives if is_over else fleet.expires,
        asked=now,
    )


def _addresses(store: Store, run: Run) -> set[str]:
    """Return the addresses of the hosts on which a run was, as far as they are known."""
    ranks = store.ranks(run.wish.cluster, run.fact.generation)
    return {rank.address for rank in ranks if rank.address}


def _check_nodes(store: Store, run: Run) -> None:
    """Refuse a run that would continue on this machine, though it was on nodes.

    Raises:
        StateError: With what brings them back.
    """
    wish = store.cluster_wish(run.wish.cluster)
    called, cluster = shlex.quote(run.wish.name), run.wish.cluster
    if wish is not None and (wish.up or not wish.fleet.place.has_nodes):
        return
    were = _addresses(store, run) - {"localhost"} if wish is None else {""}
    if were:
        place = wish.fleet.place.located if wish else "on other machines"
        back = (
            f"start them again with `workbench run --resume {called}`, which asks first"
            if wish
            else f"start nodes for it with `workbench up --cluster {cluster}`"
        )
        raise StateError(
            f"Run {run.wish.name!r} was {place}, and cluster {cluster!r} has no nodes now",
            f"{back}, or name another cluster with --cluster.",
        )


def _origin(store: Store, run: Run, cluster: str, module: str | None) -> Origin:
    kept = run.wish.origin.module if module is None else module
    return origin_here(store, cluster, run.wish.folder, kept)


def _check_run(run: Run) -> None:
    called, words = f"Run {run.wish.name!r}", shlex.quote(run.wish.name)
    if not run.fact.state.ended:
        raise StateError(
            f"{called} is {run.fact.state}", f"wait for it, or stop it (`workbench stop {words}`)."
        )
    if not is_resumable(run.wish.kind):
        raise StateError(f"{called} is a {_NAMES[run.wish.kind]}, which has no state", "repeat it.")


def _check_source(run: Run, source: str | None, path: str | None) -> None:
    """Refuse a script in place of a cell, and the reverse."""
    kind = RunKind.CELL if path is None else RunKind.SCRIPT
    if source is not None and kind is not run.wish.kind:
        raise StateError(
            f"Run {run.wish.name!r} is a {run.wish.kind}, which no {kind} can replace",
            f"resume it without the {kind}, or start a new run.",
        )


def _snapshot_of(store: Store, run: Run, fleet: FleetWish) -> int:
    """Return the iteration of the run's newest snapshot; -1 if only the ranks know it."""
    if run.wish.restarts:
        return NONE
    called, iteration = f"Run {run.wish.name!r}", store.attempts.newest_snapshot(run.id)
    if fleet.place.is_remote or fleet.snapshots:
        if iteration == NONE:
            raise StateError(f"{called} has no snapshot", _SAVERS)
        return iteration
    folder = snapshot_directory(run.id)
    if not any(folder.glob("*/manifest.json")):
        where = "" if iteration == NONE else f" in {folder}"
        raise StateError(f"{called} has no snapshot{where}", _SAVERS)
    return iteration
