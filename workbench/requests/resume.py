"""Request that a run which has ended continues from its newest snapshot."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping

from workbench.core.fleet.model import ELSEWHERE, FleetWish
from workbench.core.run.model import Run, RunKind, RunWish
from workbench.core.run.resumption import NONE, is_resumable
from workbench.core.run.retries import check_retries
from workbench.errors import InputError, StateError
from workbench.requests.origin import origin_here
from workbench.requests.run import world_for
from workbench.requests.supervisor import wake_supervisor
from workbench.store import Store
from workbench.store.attempts import Changes
from workbench.store.paths import snapshot_directory

_NAMES = {RunKind.SETUP: "set-up cell", RunKind.MEASUREMENT: "measurement"}
_SAVERS = (
    "run it again; loops of workbench.elastic save snapshots, and trainings by Chainer's Trainer, "
    "on several ranks with a multi-node optimizer."
)


_KEPT = ("name", "cluster", "communicator", "compress", "double_buffering", "keep_batch", "restart")


def check_kept(options: Mapping[str, object]) -> None:
    """Refuse options that a resumed run keeps from its request.

    Args:
        options: By name, as in code; those that are empty were not given.

    Raises:
        InputError: One was given.
    """
    if wrong := next((name for name in _KEPT if options.get(name)), ""):
        option = f"--{wrong.replace('_', '-')}"
        raise InputError(f"{option} cannot change when a run is resumed", "leave it out.")


def ask_resume(
    store: Store,
    name: str,
    *,
    source: str | None = None,
    path: str | None = None,
    arguments: tuple[str, ...] | None = None,
    parameters: tuple[tuple[str, object], ...] = (),
    ranks: int | None = None,
    oversubscribe: bool = False,
    grace: float | None = None,
    retries: int | None = None,
    wall_clock_limit: float | None = None,
    from_here: bool = False,
) -> RunWish:
    """Queue the next attempt of a run, which continues from its newest snapshot.

    What is not given stays as it was requested before.

    Args:
        name: Its name or id.
        source: Replaces the run's source: the cell's text, or the script's with its ``path``.
        parameters: Added to those of the run.
        ranks: Ranks to run on; None for as many as before, or all that are left.
        from_here: Whether this process's variables and notebook replace those of its request.

    Raises:
        InputError: An option is not valid; nothing was started.
        Unknown: There is no such run.
        StateError: It has not ended, or has no snapshot; or its cluster has expired.
    """
    run, now = store.run(name), time.time()
    _check_run(run)
    _check_source(run, source, path)
    if grace is not None and grace < 0:
        raise InputError(f"grace must be at least 0 seconds, not {grace:g}.")
    if retries is not None:
        check_retries(retries)
    world, fleet = world_for(store, run.wish.cluster, ranks, oversubscribe, now)
    iteration = _snapshot_of(store, run, fleet)
    merged = tuple({**dict(run.wish.parameters), **dict(parameters)}.items())
    where = "its newest snapshot" if iteration == NONE else f"iteration {iteration:,}"
    message = "The script starts again." if run.wish.restarts else f"Continues from {where}."
    changes = Changes(
        now,
        source=source,
        path=path,
        arguments=arguments,
        parameters=merged,
        ranks=ranks,
        grace=grace,
        retries=retries,
        wall_clock_limit=wall_clock_limit,
        world=world,
        fleet=fleet,
        origin=origin_here(store, run.wish.cluster, run.wish.folder) if from_here else None,
    )
    store.resume_run(run.fact, message, changes)
    wake_supervisor(run.wish.cluster)
    return store.run(run.id).wish


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
    called, iteration = f"Run {run.wish.name!r}", store.newest_snapshot(run.id)
    if fleet.provider in ELSEWHERE or fleet.snapshots:
        if iteration == NONE:
            raise StateError(f"{called} has no snapshot", _SAVERS)
        return iteration
    folder = snapshot_directory(run.id)
    if not any(folder.glob("*/manifest.json")):
        where = "" if iteration == NONE else f" in {folder}"
        raise StateError(f"{called} has no snapshot{where}", _SAVERS)
    return iteration
