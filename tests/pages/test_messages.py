"""Runs and clusters as JSON: nothing in it that JSON has no word for."""

from __future__ import annotations

import json
import math

import msgspec
import pytest

from workbench.analysis.step_breakdown import StepBreakdown
from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.core.run.model import RunState
from workbench.core.run.run_options import RunOptions
from workbench.core.world.world import RankFact
from workbench.errors import Unknown
from workbench.pages.messages import cluster_message, full_run_message, listed_runs, steps_message
from workbench.pages.protocol import RankMessage


def test_a_run_is_json_even_if_its_values_are_no_numbers(store, queue, report) -> None:
    run = queue(
        "digits", options=RunOptions(parameters=(("lr", math.inf), ("net", [1, 2]), ("n", 3)))
    )
    report(run, 0, loss=[math.nan])

    message = full_run_message(store, store.run(run.id), 10.0)

    assert json.loads(msgspec.json.encode(message)) == json.loads(
        json.dumps(msgspec.to_builtins(message), allow_nan=False)
    )
    assert message.values == {"loss": None}
    assert message.parameters == {"lr": None, "net": "[1, 2]", "n": 3}


def test_values_are_what_training_reported_in_the_order_in_which_they_are_shown(
    store, queue, report
) -> None:
    run = queue("digits")
    report(run, 0, lr=[0.1], epoch=[1], step__compute=[1.0], validation__main__loss=[2.0])
    report(run, 0, main__loss=[1.0], accuracy=[0.5])

    values = full_run_message(store, store.run(run.id), 10.0).values

    assert [*values] == ["main/loss", "validation/main/loss", "accuracy", "lr"]


def test_a_run_that_waits_says_for_what(store, queue) -> None:
    queue("first")
    second = queue("second")
    store.put_cluster_fact(ClusterFact("default", ClusterState.READY, ranks=2))

    assert full_run_message(store, second, 1.0).line == ("waits for run 'first'",)


def test_a_run_that_is_asked_to_stop_is_stopping_until_it_has_ended(store, queue) -> None:
    run = queue("digits")

    store.wish_stop(run.id)
    assert full_run_message(store, store.run(run.id), 1.0).is_stopping is True
    store.put_run_fact(run.id, state=RunState.STOPPED, ended=2.0)

    assert full_run_message(store, store.run(run.id), 3.0).is_stopping is False


def test_listed_runs_have_a_glance_at_their_main_curve(store, queue, report) -> None:
    run = queue("digits")
    report(run, 0, main__loss=[1000.0 - i for i in range(1000)], main__accuracy=[0.5])

    (message,) = listed_runs(store, None, 10, 1.0)

    assert message.sparkline_name == "main/loss"
    assert 30 <= len(message.sparkline) <= 41
    assert message.sparkline[:2] == (1000.0, 974.0)


def test_a_run_without_points_has_no_glance(store, queue) -> None:
    queue("digits")

    (message,) = listed_runs(store, None, 10, 1.0)

    assert (message.sparkline, message.sparkline_name) == ((), "")


def test_a_cluster_shows_desired_and_observed_state(store, queue) -> None:
    store.wish_cluster("default", up=True, ranks=3)
    store.put_cluster_fact(ClusterFact("default", ClusterState.RESIZING, ranks=2, generation=1))
    store.put_ranks("default", [RankFact(1, rank, "here", 100 + rank, rank) for rank in range(2)])
    run = queue("digits")

    message = cluster_message(store, "default", 1.0)

    assert (message.ranks_asked, message.ranks_actual) == (3, 2)
    assert message.ranks[1] == RankMessage(rank=1, host="here", pid=101)
    assert [one.id for one in message.runs] == [run.id]
    assert message.price is None


def test_a_cluster_that_was_asked_for_is_starting_before_anything_is_known_of_it(store) -> None:
    store.wish_cluster("default", up=True, ranks=3)
    asked = cluster_message(store, "default", 1.0)
    store.wish_cluster("default", up=False, ranks=3)
    gone = cluster_message(store, "default", 1.0)

    assert (asked.state, gone.state) == ("starting", "down")


def test_a_cluster_that_is_down_still_says_which_size_it_had(store) -> None:
    store.wish_cluster("default", up=False, ranks=3)

    message = cluster_message(store, "default", 1.0)

    assert (message.ranks_asked, message.ranks_wished) == (0, 3)


def test_a_cluster_that_no_one_asked_for_is_unknown(store) -> None:
    with pytest.raises(Unknown, match="no cluster 'other'"):
        cluster_message(store, "other", 1.0)


def test_of_many_ranks_the_slowest_is_among_those_that_are_reported() -> None:
    steps = {rank: {"compute": 1.0} for rank in range(100)}

    message = steps_message(StepBreakdown(steps, slowest=90))

    assert message.title == "Time of a step in ms, on 32 of 100 ranks"
    assert message.marked == 31
    assert [row[0] for row in message.ranks] == [*range(31), 90]


def test_a_page_names_buttons_and_not_commands(store) -> None:
    store.wish_cluster("default", up=True, ranks=2)
    said = "Port 9 is taken; `workbench delete` and `workbench up` choose another."
    store.put_cluster_fact(ClusterFact("default", ClusterState.FAILED, message=said))

    message = cluster_message(store, "default", 1.0).message

    assert message == "Port 9 is taken; Delete and Start choose another."
