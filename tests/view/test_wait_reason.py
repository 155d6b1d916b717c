"""A view that waits shows for what, and no longer than it can succeed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.core.run.model import Run, RunFact, RunKind, RunState, RunWish
from workbench.view.state_line import PATIENCE_SECONDS, reason, start_failure

READY = ClusterFact("default", ClusterState.READY, 2, 1)


def run(state: RunState = RunState.QUEUED, *, stop: bool = False, message: str = "") -> Run:
    wish = RunWish("261121-003229-aaaa", "first", RunKind.CELL, "pass", created=100.0, stop=stop)
    return Run(wish, RunFact(wish.id, state, message=message))


@pytest.mark.parametrize(
    ("waiting", "cluster", "before", "words"),
    [
        (run(RunState.RUNNING), READY, [], ""),
        (run(RunState.FINISHED, stop=True), READY, [], ""),
        (
            run(RunState.RUNNING, stop=True),
            READY,
            [],
            "asked to stop; the ranks have 5 s to finish their iteration",
        ),
        (run(RunState.SUBMITTED), READY, [], "sent to the ranks"),
        (run(RunState.SUBMITTED, message="They are busy."), READY, [], "They are busy."),
        (run(), READY, [], "about to be sent to the ranks"),
        (run(message="Repeats 'data' first."), READY, [], "Repeats 'data' first."),
        (run(), READY, [run(RunState.RUNNING)], "waits for run 'first'"),
        (run(), READY, [run()] * 3, "waits for run 'first' and 2 more"),
        (run(), ClusterFact("default", message="Of old."), [], "the cluster is about to start"),
        (
            run(),
            ClusterFact("default", ClusterState.STARTING, message="1 of 2 is here"),
            [],
            "the cluster is starting (1 of 2 is here)",
        ),
        (
            run(),
            ClusterFact("default", ClusterState.RESIZING, 1),
            [],
            "the cluster is changing size from 1 rank",
        ),
        (
            run(),
            ClusterFact("default", ClusterState.FAILED),
            [],
            "the cluster failed and is being restarted",
        ),
    ],
)
def test_a_run_says_what_it_waits_for(waiting, cluster, before, words):
    assert reason(waiting, cluster, before) == words


def test_a_set_up_cell_is_called_by_its_name():
    setup = run(RunState.RUNNING)
    setup = replace(setup, wish=replace(setup.wish, kind=RunKind.SETUP, setup="network"))

    assert reason(run(), READY, [setup]) == "waits for set-up 'network'"


def test_a_failure_older_than_the_wish_may_yet_be_fixed():
    failed = ClusterFact("default", ClusterState.FAILED, message="No mpiexec.", updated=90.0)

    assert start_failure(run(), failed, now=100.0 + PATIENCE_SECONDS - 1) == ""
    assert start_failure(run(), failed, now=100.0 + PATIENCE_SECONDS) == "No mpiexec."


def test_a_failure_since_the_wish_ends_the_wait_and_names_the_log():
    failed = ClusterFact("mine", ClusterState.FAILED, updated=101.0)

    assert start_failure(run(), failed, now=101.0) == (
        "Cluster 'mine' has failed; see `workbench logs --supervisor --cluster mine`."
    )


def test_a_run_that_has_begun_is_not_given_up():
    failed = ClusterFact("default", ClusterState.FAILED, message="No.", updated=101.0)

    assert start_failure(run(RunState.RUNNING), failed, now=200.0) == ""
