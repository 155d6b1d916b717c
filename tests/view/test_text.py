"""States, durations and values are said in the same words in a notebook and in a shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.core.cluster.model import ClusterFact, ClusterState, ClusterWish
from workbench.core.run.model import Run, RunFact, RunKind, RunState, RunWish
from workbench.view.text import (
    cluster_line,
    duration,
    place,
    state_line,
    summary,
    values_line,
)


def run(state: RunState, **changes: object) -> Run:
    wish = RunWish("261121-003229-aaaa", "digits", RunKind.CELL, "pass")
    return Run(wish, RunFact(wish.id, state, ranks=2, **changes))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.26, "260 ms"), (42.0, "42 s"), (60, "1 min"), (200, "3 min 20 s"), (3900, "1 h 5 min")],
)
def test_durations_are_said_as_people_do(seconds, words):
    assert duration(seconds) == words


def test_a_running_run_says_how_far_how_long_and_how_fast():
    running = run(RunState.RUNNING, started=100.0, iteration=50, iterations_total=200, epoch=1.5,
                  epochs_total=6)  # fmt: skip

    assert state_line(running, now=110.0, rate=10.0) == (
        "running on 2 ranks, iteration 50, epoch 1.5 of 6, 10 s, about 30 s left, 10 it/s"
    )


def test_a_number_of_iterations_is_told_where_it_is_more_than_an_estimate():
    running = run(RunState.RUNNING, iteration=50, iterations_total=200)
    over = run(RunState.FINISHED, iteration=450, iterations_total=450, epoch=6, epochs_total=6)

    assert "iteration 50 of 200" in state_line(running, now=110.0)
    assert "iteration 450 of 450, epoch 6 of 6" in state_line(over, now=110.0)


@pytest.mark.parametrize(
    ("state", "changes", "words"),
    [
        (RunState.STOPPED, {"iteration": 7}, "stopped at iteration 7 on 2 ranks"),
        (
            RunState.STOPPED,
            {"stopped_at": 7, "remark": "Its variables are lost.", "message": "Whatever."},
            "stopped at iteration 7 on 2 ranks: Its variables are lost",
        ),
        (  # of an older store
            RunState.STOPPED,
            {"iteration": 7, "message": "Stopped at iteration 7. Its variables are lost."},
            "stopped on 2 ranks: Stopped at iteration 7. Its variables are lost",
        ),
        (
            RunState.STOPPED,
            {"message": "Stopped before it began."},
            "stopped before it started on 2 ranks",
        ),
        (
            RunState.FAILED,
            {"failed_rank": 1, "failed_host": "there"},
            "failed on rank 1 (there) on 2 ranks",
        ),
        (
            RunState.FAILED,
            {"failed_rank": 1, "failed_host": "there", "message": "Rank 1 on there failed: No."},
            "failed on 2 ranks: Rank 1 on there failed: No",
        ),
        (
            RunState.FINISHED,
            {"message": "The engines are new."},
            "finished on 2 ranks: The engines are new",
        ),
    ],
)
def test_an_ended_run_says_how_once(state, changes, words):
    assert state_line(run(state, **changes), now=0.0) == words


def test_what_a_run_waits_for_takes_the_place_of_its_message():
    assert state_line(run(RunState.QUEUED, message="no"), 0.0, "the cluster is starting") == (
        "queued on 2 ranks: the cluster is starting"
    )


def test_values_are_those_that_training_reported():
    assert values_line({"epoch": 3, "loss": 0.123456, "step/data": 1}) == "loss 0.1235"


def test_a_path_below_the_home_is_said_as_people_write_it():
    assert place(Path.home() / "runs") == "~/runs"
    assert place(Path("/elsewhere")) == "/elsewhere"


def test_a_cluster_says_asked_against_actual():
    fact = ClusterFact("default", ClusterState.RESIZING, 2, 3, "1 of 4 ranks is here")

    assert cluster_line(ClusterWish("default", True, 4), fact) == (
        "Cluster default: resizing, 2 of 4 ranks: 1 of 4 ranks is here"
    )


def test_a_summary_says_how_it_ended_and_where_it_is_kept():
    ended = run(RunState.FINISHED, started=1.0, ended=3.0, iteration=3)

    assert summary(ended, {"loss": 1.0}, Path("/home"), 9.0, ["A step takes 1 ms: data 1 ms."]) == [
        "Run digits: finished on 2 ranks, iteration 3, 2.0 s",
        "Last values: loss 1",
        "A step takes 1 ms: data 1 ms.",
        "Saved as 261121-003229-aaaa in /home",
    ]
