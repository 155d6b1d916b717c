"""Request a measurement of a cluster, and return the last one and its results."""

from __future__ import annotations

import time
from typing import Any

from workbench.core.run.model import Run, RunKind
from workbench.errors import StateError, Unknown
from workbench.requests.measurement import ask_measurement
from workbench.store import Store
from workbench.view.page_protocol import as_values
from workbench.view.survey_output import survey_message

Message = dict[str, Any]


def ask(store: Store, cluster: str) -> Run:
    """Queue a measurement of a cluster and return it, or return the active one.

    Raises:
        StateError: The cluster is not up (starting it may cost money), or the active measurement is
            being cancelled.
        Unknown: There is no such cluster.
    """
    from workbench.requests.keep_awake import keep_awake

    wish = store.cluster_wish(cluster)
    if wish is None:
        raise Unknown(f"There is no cluster {cluster!r}; start it first.")
    if not wish.up:
        raise StateError(
            f"Cluster {cluster!r} is not up, so it cannot be measured; start it first."
        )
    on = [run for run in store.unfinished(cluster) if run.wish.kind is RunKind.MEASUREMENT]
    if on and on[0].wish.stop:
        raise StateError(f"The last measurement of {cluster!r} is being cancelled; try again soon.")
    if on:
        return on[0]
    asked = ask_measurement(store, cluster=cluster)
    keep_awake(store, cluster)
    return store.run(asked.id)


def survey(store: Store, run: Run) -> Message:
    """Return the results of a measurement.

    Raises:
        Unknown: The run has no results, or none yet.
    """
    found = store.survey(run.id)
    if found is None:
        raise Unknown(f"Run {run.wish.name!r} has measured nothing; ask again once it has ended.")
    return as_values(survey_message(store, run, found, time.time()))
