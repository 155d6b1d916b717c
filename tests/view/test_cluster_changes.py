"""Who resizes a cluster reads before what that means for its run."""

from __future__ import annotations

import pytest

from tests.batches import event_batch
from workbench.core.cluster.model import ResizeAt
from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import SnapshotSaved
from workbench.core.run.run_options import RunOptions
from workbench.pages.messages import cluster_message
from workbench.view.cluster_changes import resize_effect


@pytest.fixture
def run(store, supervisor, queue):
    store.wish_cluster("default", up=True, ranks=2, oversubscribe=False)
    made = queue("digits")
    supervisor.put_run_fact(made.id, state=RunState.RUNNING, ranks=2)
    return made


def test_a_run_with_a_snapshot_moves(store, supervisor, run) -> None:
    before = resize_effect(store, "default")
    supervisor.reports.add_batches([event_batch(run.id, SnapshotSaved(4))])

    after = resize_effect(store, "default")

    assert before == (
        "A resize waits for the first snapshot of run digits, or for its end if it saves none; "
        "loops of workbench.elastic save them."
    )
    assert after.startswith("Run digits moves to the new ranks at its next iteration")
    assert cluster_message(store, "default", 1.0).resizing.step == after


@pytest.mark.parametrize(
    ("at", "words"),
    [("epoch", "moves to the new ranks at the end of its epoch"), ("end", "the end of run digits")],
)
def test_what_is_said_follows_the_time_of_the_move(store, supervisor, run, at, words) -> None:
    supervisor.reports.add_batches([event_batch(run.id, SnapshotSaved(4))])

    assert words in resize_effect(store, "default", ResizeAt(at))


def test_a_release_of_all_nodes_says_what_the_run_does(store, supervisor, run) -> None:
    stays = resize_effect(store, "default", nodes=0)
    supervisor.reports.add_batches([event_batch(run.id, SnapshotSaved(4))])
    leaves = resize_effect(store, "default", nodes=0)

    assert stays.startswith("The nodes stay, and cost money, until the end of run digits;")
    assert "`workbench stop digits` ends it" in stays
    assert leaves.startswith("Run digits is saved and leaves its ranks at its next iteration;")
    assert resize_effect(store, "default", ResizeAt.END, 0) == stays


def test_a_run_that_could_not_follow_is_said_to_keep_its_ranks(store, supervisor, run) -> None:
    supervisor.reports.add_batches([event_batch(run.id, SnapshotSaved(4))])
    supervisor.put_run_fact(run.id, hindrance="It uses `x`, which no cell has made.")

    assert resize_effect(store, "default") == (
        "A resize waits for the end of run digits. It uses `x`, which no cell has made."
    )


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("step", "starts again on the new ranks when these are ready; it loads its own newest"),
        ("epoch", "starts again on the new ranks at the end of its epoch; it loads its own newest"),
        ("end", "A resize waits for the end of run own."),
    ],
)
def test_a_script_that_loads_its_own_state_is_said_to_start_again(
    store, supervisor, at, words
) -> None:
    wish = RunWish(
        "261121-003229-rest", "own", RunKind.SCRIPT, "", options=RunOptions(restart=True)
    )
    supervisor.put_run_fact(store.wish_run(wish).id, state=RunState.RUNNING)

    assert words in resize_effect(store, "default", ResizeAt(at))


def test_a_measurement_is_waited_for(store, supervisor) -> None:
    wish = RunWish("261121-003229-meas", "links", RunKind.MEASUREMENT, "")
    supervisor.put_run_fact(store.wish_run(wish).id, state=RunState.RUNNING)

    assert resize_effect(store, "default") == "A resize waits for the end of run links."


def test_without_a_run_on_the_ranks_nothing_is_said(store, supervisor, run) -> None:
    supervisor.wish_stop(run.id)

    assert resize_effect(store, "default") == ""


def test_a_cell_that_is_repeated_for_the_run_is_not_meant(store, supervisor, run) -> None:
    wish = RunWish("261121-003100-repl", "data", RunKind.REPLAY, "pass")
    supervisor.put_run_fact(store.wish_run(wish).id, state=RunState.RUNNING)

    assert "run digits" in resize_effect(store, "default").lower()
