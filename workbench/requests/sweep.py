"""Request a sweep, or that one stops or continues."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workbench.core.cluster.model import DEFAULT_CLUSTER
from workbench.core.fleet.model import FleetWish
from workbench.core.run.run_options import RunOptions
from workbench.core.run.sweep import (
    GRID,
    RANDOM,
    Goal,
    SweepWish,
    check_sweep,
    split_parameters,
    usual_trials,
)
from workbench.errors import InputError, StateError
from workbench.requests.run import prepare_run, world_for
from workbench.requests.supervisor import keep_awake, wake_supervisor
from workbench.store import Store


def ask_sweep(
    store: Store,
    options: RunOptions,
    *,
    given: Mapping[str, Any],
    cluster: str = DEFAULT_CLUSTER,
    name: str | None = None,
    **run: Any,
) -> SweepWish:
    """Queue a sweep on ``cluster``, which is started if necessary.

    Args:
        options: Of each trial; a parameter with several values is searched.
        given: What was typed: ``trials``, ``minimize`` or ``maximize``, the names of a known
            ``sampler`` and ``pruner``, ``seed``, ``ranks_per_trial``, ``sweep_limit``,
            ``sweep_budget``.
        name: None for the script's, or ``cell``.
        run: What else ``prepare_run`` takes.

    Raises:
        InputError: A value is not valid; nothing was started.
        PriceQuestion: As for ``ask_run``.
        StateError: The cluster has expired, or its nodes are still being deleted.
    """
    spaces, fixed = split_parameters(dict(options.parameters))
    goal, metric = _find_goal(given)
    trials, ranks = given.get("trials"), given.get("ranks_per_trial") or (0, 0)
    has_all = trials is None and bool(spaces)
    each = replace(options, parameters=fixed, ranks=ranks[0] or None)
    wish, world, fleet = prepare_run(store, each, cluster=cluster, name=name, **run)
    sweep = check_sweep(
        SweepWish(
            id=wish.id,
            name=wish.name,
            run=wish,
            spaces=spaces,
            trials=usual_trials(spaces) if has_all else trials or 0,
            metric=metric,
            goal=goal,
            sampler=given.get("sampler") or (GRID if has_all else RANDOM),
            pruner=given.get("pruner") or "",
            seed=given.get("seed") or 0,
            ranks=ranks,
            wall_clock_limit=given.get("sweep_limit") or 0.0,
            budget=given.get("sweep_budget") or 0.0,
            created=wish.created,
            began=wish.created,
            base=store.fleets.spent(cluster),
            cluster=cluster,
        )
    )
    _check_budget(store, sweep, fleet)
    asked = store.sweeps.wish(sweep, world, fleet)
    wake_supervisor(cluster)
    return asked


def _check_budget(store: Store, sweep: SweepWish, fleet: FleetWish | None) -> None:
    known = store.cluster_wish(sweep.cluster)
    there = fleet or (known.fleet if known else FleetWish())
    if sweep.budget and not there.place.is_charged:
        raise InputError(
            f"The nodes of cluster {sweep.cluster!r} cost nothing, so no budget ends a sweep",
            "give --sweep-limit, a time, in place of --sweep-budget.",
        )


def extend_sweep(store: Store, name: str, given: Mapping[str, Any]) -> SweepWish:
    """Let a sweep continue that was stopped or is over.

    Args:
        given: What was typed of ``trials``, in all; ``sweep_limit``, from now on; and
            ``sweep_budget``, in all. What is left out stays.

    Raises:
        InputError: The number is not valid.
        StateError: There is no such sweep, or nothing is left to do.
    """
    sweep, fact = store.sweeps.find(name)
    fields = {"trials": "trials", "sweep_limit": "wall_clock_limit", "sweep_budget": "budget"}
    changes = {fields[one]: given[one] for one in fields if given.get(one)}
    longer = check_sweep(replace(sweep, **changes))
    _check_budget(store, longer, None)
    begun = len(store.sweeps.trials(sweep.id))
    if not fact.over and not changes:
        raise StateError(f"Sweep {sweep.name!r} is active already", "give it more --trials.")
    if longer.budget and fact.spent >= longer.budget:
        raise InputError(
            f"Sweep {sweep.name!r} has cost more than its budget",
            "give it a larger one in all (--sweep-budget).",
        )
    if longer.trials <= begun and (fact.over or "trials" in changes):
        raise InputError(
            f"Sweep {sweep.name!r} has begun {begun} trials",
            f"ask for more (--trials {2 * begun}).",
        )
    world, fleet = world_for(store, sweep.cluster, sweep.ranks[0] or None, False, time.time())
    if fact.over:
        longer = replace(longer, base=store.fleets.spent(sweep.cluster) - fact.spent)
    if fact.over or "wall_clock_limit" in changes:
        longer = replace(longer, began=time.time())
    store.sweeps.extend(longer, world, fleet)
    wake_supervisor(sweep.cluster)
    return store.sweeps.find(sweep.id)[0]


def ask_sweep_stop(store: Store, name: str | None) -> str:
    """Request that a sweep stops, if ``name`` is that of one which is not over.

    Returns:
        What was asked, a sentence; empty if no such sweep is active.
    """
    if name not in store.sweeps.names():
        return ""
    sweep, fact = store.sweeps.find(name)
    if fact.over:
        return ""
    store.sweeps.wish_stop(sweep.id)
    keep_awake(store, sweep.cluster)
    return f"Asked sweep {sweep.name!r} to stop; `workbench sweep --resume` continues it."


def _find_goal(given: Mapping[str, Any]) -> tuple[Goal, str]:
    asked = [(goal, given[goal]) for goal in Goal if given.get(goal)]
    if len(asked) != 1:
        said = "Both --minimize and --maximize are given" if asked else "A sweep needs a goal"
        raise InputError(said, "name one value that the training reports: --minimize loss.")
    return asked[0]
