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
        "Run digits: finished · iteration 3 · 2 ranks · took 2.0 s",
        "Last values: loss 1",
        "A step takes 1 ms: data 1 ms.",
        "Saved as 261121-003229-aaaa in /home",
    ]
