"""Runs are listed in tables of the same words in a notebook and in a shell."""

from __future__ import annotations

import pytest

from workbench.core.fleet.model import FleetWish
from workbench.core.node.findings import Finding
from workbench.core.recovery.snapshots import SnapshotFile, SnapshotManifest
from workbench.core.run.model import RunState
from workbench.core.run.run_options import RunOptions
from workbench.core.world.world import RankFact
from workbench.view.tables.listing import (
    INDENT,
    comparison_sentence,
    comparison_table,
    conclusion,
    describe_parts,
    describe_snapshots,
    folded_line,
    ranks_table,
    runs_table,
    verdict_lines,
)
from workbench.view.text import moment


def test_a_run_is_listed_with_its_last_values(store, queue, report):
    run = queue("digits")
    report(run, 0, loss=[2.0, 1.0], step__data=[0.1])

    table = runs_table(store, [store.run(run.id)], 0.0)

    (row,) = table.rows
    assert dict(zip(table.headers, row, strict=True)) == {
        "run": "digits",
        "state": "queued",
        "ranks": "–",
        "iterations": "0",
        "asked": row[4],
        "duration": "–",
        "last values": "loss 1",
    }


def test_cells_that_only_printed_are_folded_unless_they_failed(store, queue, report):
    states = {"print": "finished", "fail": "failed", "stop": "stopped", "train": "finished"}
    for name, state in states.items():
        run = queue(name)
        store.put_run_fact(run.id, state=RunState(state))
        if name == "train":
            report(run, 0, loss=[1.0])

    listed = store.runs(printed=False)

    assert [run.wish.name for run in listed] == ["train", "stop", "fail"]
    assert folded_line(store, listed, 20, "%dist_runs --all") == (
        "And 1 cell that only printed; `%dist_runs --all` lists them."
    )
    assert folded_line(store, listed[:1], 1, "") == ""  # it is older than what is listed


def test_runs_side_by_side_differ_in_parameters_values_and_steps(store, queue, report):
    slow, fast = queue("slow", options=RunOptions(parameters=(("lr", 0.1),))), queue("fast")
    report(slow, 0, loss=[2.0], step__data=[0.1], step__compute=[0.4])
    store.put_run_fact(slow.id, state=RunState.FINISHED, started=1.0, ended=3.0, ranks=2)

    table = comparison_table(store, [store.run(slow.id), store.run(fast.id)], 0.0)

    assert table.headers == ("", "slow", "fast")
    assert table.rows == (
        ("id", slow.id, fast.id),
        ("state", "finished", "queued"),
        ("ranks", "2", "–"),
        ("iterations", "0", "0"),
        ("duration", "2.0 s", "–"),
        ("asked", moment(slow.wish.created), moment(fast.wish.created)),
        ("source", "cell, 1 line, d74ff0e", "cell, 1 line, d74ff0e"),
        ("lr", "0.1", "–"),
        ("loss", "2", "–"),
        ("ms a step", "500", "–"),
        (INDENT + "compute", "400", "–"),
        (INDENT + "communication", "0", "–"),
        (INDENT + "data", "100", "–"),
        (INDENT + "other", "0", "–"),
    )


def test_of_runs_side_by_side_it_is_said_which_is_faster_and_why(store, queue, report):
    for name, moving in (("plain", 0.06), ("fp16", 0.02)):
        parts = {"compute": 0.04, "communication": moving, "waiting": 0.0, "moving": moving}
        run = queue(name)
        report(run, 0, **{f"step__{part}": [seconds] for part, seconds in parts.items()})
        store.put_run_fact(run.id, state=RunState.FINISHED, ranks=1)
    runs = [store.run("plain"), store.run("fp16")]

    assert comparison_sentence(store, runs) == (
        "Run 'fp16' is 1.7 times as fast as run 'plain': moving bytes took 40 ms less a step."
    )
    assert [line.partition(":")[0] for line in verdict_lines(store, runs)] == ["plain", "fp16"]


def test_ranks_say_where_they_are_and_what_they_run():
    table = ranks_table([RankFact(1, 0, "here", 4000, 7, "3.13.1", "Open MPI v5.0.11")])

    assert table.rows == (("0", "here", "4000", "3.13.1", "Open MPI v5.0.11"),)


@pytest.mark.parametrize(
    ("verdicts", "sentence"),
    [
        ([True, None], "No problems found."),
        ([True, False], "1 problem found, with its remedy."),
        ([False, False], "2 problems found, with their remedies."),
    ],
)
def test_what_the_doctor_found_is_concluded_in_a_sentence(verdicts, sentence) -> None:
    assert conclusion([Finding("check", ok, "") for ok in verdicts]) == sentence


ELSEWHERE = FleetWish(provider="hosts")
IN_S3 = FleetWish(provider="ec2", snapshots="s3://bucket/prefix")


def saved(iteration: int) -> SnapshotManifest:
    files = (SnapshotFile("trainer.npz", 1_500_000, 7),)
    return SnapshotManifest("a-run", 1, 1, 1, iteration, 0.5, 2, final=False, files=files)


@pytest.mark.parametrize(
    ("reported", "here", "fleet", "text"),
    [
        (-1, [], FleetWish(), ""),
        (1200, [saved(1200)], FleetWish(), "iteration 1,200, 1.5 MB on this machine"),
        (9, [], FleetWish(), "iteration 9"),
        (9, [], ELSEWHERE, "iteration 9 on its nodes alone"),
        (9, [saved(5), saved(9)], ELSEWHERE, "iteration 9, 1.5 MB; copied to this machine"),
        (9, [saved(5)], ELSEWHERE, "iteration 9; copied to this machine: 5"),
        (9, [], IN_S3, "iteration 9 on its nodes; copies in s3://bucket/prefix"),
    ],
)
def test_the_newest_snapshot_is_said_with_its_place(reported, here, fleet, text) -> None:
    assert describe_snapshots(reported, here, fleet) == text


@pytest.mark.parametrize(
    ("savers", "text"),
    [
        ((), ""),
        (((0,),), ""),
        (((0, 1), (1, 0)), "in 2 parts, so a loss of two nodes at once takes it in 1 of 1 cases"),
        (
            ((0, 1), (1, 2), (2, 3), (3, 0)),
            "in 4 parts, so a loss of two nodes at once takes it in 4 of 6 cases",
        ),
        (((0, 2), (1, 3)), "in 2 parts, so a loss of two nodes at once takes it in 2 of 6 cases"),
        (((0, 1, 2),), "in 1 part, so a loss of two nodes at once takes it in no case"),
    ],
)
def test_what_a_loss_of_two_nodes_costs_is_said_of_a_divided_state(savers, text) -> None:
    assert describe_parts(savers) == text
