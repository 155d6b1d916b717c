"""Who waits is told for what, and no longer than there is hope."""

from __future__ import annotations

import pytest

from workbench.core.cluster import ClusterFact, ClusterState
from workbench.core.run import Run, RunFact, RunKind, RunState, RunWish
from workbench.view.waiting import PATIENCE_SECONDS, hopeless, reason

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
            "asked to stop; the ranks have 5 s to reach an iteration boundary",
        ),
        (run(RunState.SUBMITTED), READY, [], "sent to the ranks"),
        (run(RunState.SUBMITTED, message="They are busy."), READY, [], "They are busy."),
        (run(), READY, [], "about to be sent to the ranks"),
        (run(), READY, [run(RunState.RUNNING)], "behind run 'first' (running)"),
        (run(), READY, [run()] * 3, "behind run 'first' (queued) and 2 more"),
        (run(), ClusterFact("default"), [], "the cluster is about to start"),
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
            "the cluster failed and is tried again",
        ),
    ],
)
def test_a_run_says_what_it_waits_for(waiting, cluster, before, words):
    assert reason(waiting, cluster, before) == words


def test_a_failure_older_than_the_wish_may_yet_be_mended():
    failed = ClusterFact("default", ClusterState.FAILED, message="No mpiexec.", updated=90.0)

    assert hopeless(run(), failed, now=100.0 + PATIENCE_SECONDS - 1) == ""
    assert hopeless(run(), failed, now=100.0 + PATIENCE_SECONDS) == "No mpiexec."


def test_a_failure_since_the_wish_ends_the_wait_and_names_the_log():
    failed = ClusterFact("mine", ClusterState.FAILED, updated=101.0)

    assert hopeless(run(), failed, now=101.0) == (
        "Cluster 'mine' has failed; `workbench logs --supervisor --cluster mine` says why."
    )


def test_a_run_that_has_begun_is_not_given_up():
    failed = ClusterFact("default", ClusterState.FAILED, message="No.", updated=101.0)

    assert hopeless(run(RunState.RUNNING), failed, now=200.0) == ""
