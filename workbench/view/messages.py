"""Say runs and clusters in values that JSON can carry; ``extension/src/protocol.ts`` has the types.

Nothing is put into words here but what is a sentence in the store already.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from workbench.core.cluster import ClusterFact, ClusterState
from workbench.core.metrics import (
    fraction_done,
    group_names,
    seconds_left,
    seconds_taken,
)
from workbench.core.run import Run, RunState
from workbench.errors import Unknown
from workbench.store import Store
from workbench.view.anatomy import Anatomy
from workbench.view.nodes import fleet_message, fleet_of
from workbench.view.record import runs_before
from workbench.view.waiting import reason

Message = dict[str, Any]

MOST_RANKS = 32  # whose step times are sent
SPARK_BUCKETS = 40
ERROR_CHARACTERS = 20_000


def run_message(
    run: Run,
    now: float,
    *,
    rate: float = 0.0,
    waiting: str = "",
    values: Mapping[str, float] | None = None,
) -> Message:
    """Return one run.

    Args:
        now: Epoch seconds.
        rate: Iterations a second of late; 0 when unknown.
        waiting: What it waits for.
        values: The last value of every name.
    """
    wish, fact = run.wish, run.fact
    return {
        "id": wish.id,
        "name": wish.name,
        "kind": str(wish.kind),
        "cluster": wish.cluster,
        "state": str(fact.state),
        "is_ended": fact.state.ended,
        "is_stopping": wish.stop and not fact.state.ended,
        "ranks": fact.ranks,
        "generation": fact.generation,
        "created": wish.created,
        "started": fact.started,
        "ended": fact.ended,
        "now": now,
        "iteration": fact.iteration,
        "iterations_total": fact.iterations_total,
        "epoch": finite(fact.epoch) or 0.0,
        "epochs_total": finite(fact.epochs_total) or 0.0,
        "fraction": fraction_done(fact),
        "seconds_left": seconds_left(fact, now),
        "seconds_taken": seconds_taken(fact, now),
        "rate": rate if fact.state is RunState.RUNNING else 0.0,
        "failed_rank": fact.failed_rank,
        "failed_host": fact.failed_host,
        "error": fact.error[-ERROR_CHARACTERS:],
        "message": fact.message,
        "waiting": waiting,
        "parameters": {name: _plain(value) for name, value in wish.parameters},
        "arguments": [str(argument) for argument in wish.arguments],
        "values": {name: finite(value) for name, value in (values or {}).items()},
    }


def steps_message(anatomy: Anatomy) -> Message:
    """Return where the time of a step goes."""
    rows, slowest = anatomy.rows, anatomy.slowest
    chosen = [*rows][:MOST_RANKS]
    if slowest in rows and slowest not in chosen:
        chosen[-1] = slowest
    return {
        "slowest": slowest,
        "parts": list(anatomy.parts),
        "ranks": [[rank, *rows[rank]] for rank in chosen],
        "total": len(rows),
        "says": list(anatomy.says),
    }


def run_now(store: Store, run: Run, now: float) -> Message:
    """Return ``run`` with all that the store has of it at ``now``."""
    cluster, before = ClusterFact(run.wish.cluster), tuple[Run, ...]()
    if not run.fact.state.ended:
        cluster = store.cluster_fact(run.wish.cluster)
        before = runs_before(run, store.unfinished(run.wish.cluster))
    return run_message(
        run, now, waiting=reason(run, cluster, before), values=store.final_values(run.id)
    )


def listed_runs(store: Store, cluster: str | None, limit: int, now: float) -> list[Message]:
    """Return the newest runs first, each with a small picture of its main curve."""
    found = []
    for run in store.runs(cluster, limit=limit):
        message = run_now(store, run, now)
        groups = group_names(message["values"])
        name = groups[0].names[0] if groups else ""
        spark = store.spark(run.id, name, SPARK_BUCKETS) if name else []
        found.append({**message, "sparkline": [finite(v) for v in spark], "sparkline_name": name})
    return found


def cluster_message(store: Store, name: str, now: float) -> Message:
    """Return cluster ``name``: what is asked of it, and what is so.

    Raises:
        Unknown: Nobody ever asked for it.
    """
    wish, fact = store.cluster_wish(name), store.cluster_fact(name)
    if wish is None:
        raise Unknown(f"There is no cluster called {name!r}.")
    # Nothing is known of it until its supervisor is awake, which takes a second or two.
    is_awaited = wish.up and fact.state is ClusterState.DOWN
    return {
        "name": name,
        "state": str(ClusterState.STARTING if is_awaited else fact.state),
        "message": fact.message,
        "is_wanted": wish.up,
        # Without a number, as many were asked for as the nodes carry.
        "ranks_asked": (wish.ranks or fact.ranks) if wish.up else 0,
        "ranks_wished": wish.ranks,
        "ranks_actual": fact.ranks,
        "oversubscribe": wish.oversubscribe,
        "revision": wish.revision,
        "generation": fact.generation,
        "updated": fact.updated,
        **fleet_message(fleet_of(store, wish, fact.ranks, now)),
        "ranks": [
            {"rank": rank.rank, "host": rank.host, "pid": rank.pid}
            for rank in (store.ranks(name, fact.generation) if fact.ranks else ())
        ],
        "runs": [run_now(store, run, now) for run in store.unfinished(name)],
    }


def finite(value: float) -> float | None:
    """Return ``value``, or None for what JSON has no number for."""
    return value if math.isfinite(value) else None


def _plain(value: object) -> object:
    """Return a parameter as JSON can carry it."""
    if isinstance(value, float):
        return finite(value)
    return value if isinstance(value, (bool, int, str)) or value is None else repr(value)
