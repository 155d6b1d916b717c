"""Ask for a cluster to be measured, and say who measured it last, and what was found."""

from __future__ import annotations

import time
from typing import Any

from workbench.core.run import Run, RunKind
from workbench.errors import StateError, Unknown
from workbench.store import Store
from workbench.store.measuring import ask_measurement
from workbench.view.keptsurvey import survey_message

Message = dict[str, Any]


def ask(store: Store, cluster: str) -> Run:
    """Queue a measurement of a cluster, and return it; the one that is on, where one is.

    Raises:
        StateError: Nobody wants the cluster up, and to start it may cost money; or the one that
            is on is being cancelled.
        Unknown: There is no such cluster.
    """
    from workbench.view.care import keep_awake

    wish = store.cluster_wish(cluster)
    if wish is None:
        raise Unknown(f"There is no cluster called {cluster!r}; start it first.")
    if not wish.up:
        raise StateError(f"Cluster {cluster!r} is not up, so it has no links; start it first.")
    on = [run for run in store.unfinished(cluster) if run.wish.kind is RunKind.MEASUREMENT]
    if on and on[0].wish.stop:
        raise StateError(f"The last measurement of {cluster!r} is being cancelled; try again soon.")
    if on:
        return on[0]
    asked = ask_measurement(store, cluster=cluster)
    keep_awake(store, cluster)
    return store.run(asked.id)


def last(store: Store, cluster: str) -> Message | None:
    """Return which run measured a cluster last, and when; None if none did."""
    found = store.last_survey(cluster)
    return {"run": found[0], "time": found[1]} if found else None


def survey(store: Store, run: Run) -> Message:
    """Return what a run measured.

    Raises:
        Unknown: It measured nothing, or has not yet.
    """
    found = store.survey(run.id)
    if found is None:
        raise Unknown(f"Run {run.wish.name!r} has measured nothing; ask again once it has ended.")
    return survey_message(store, run, found, time.time())
