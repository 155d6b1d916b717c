"""Runs stand in tables of the same words in a notebook and in a shell."""

from __future__ import annotations

from workbench.core.cluster import RankFact
from workbench.core.run import RunState
from workbench.view.listing import comparison_table, ranks_table, runs_table


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


def test_runs_side_by_side_differ_in_parameters_values_and_steps(store, queue, report):
    slow, fast = queue("slow", parameters=(("lr", 0.1),)), queue("fast")
    report(slow, 0, loss=[2.0], step__data=[0.1])
    store.put_run_fact(slow.id, state=RunState.FINISHED, started=1.0, ended=3.0, ranks=2)

    table = comparison_table(store, [store.run(slow.id), store.run(fast.id)], 0.0)

    assert table.headers == ("", "slow", "fast")
    assert table.rows == (
        ("id", slow.id, fast.id),
        ("state", "finished", "queued"),
        ("ranks", "2", "–"),
        ("iterations", "0", "0"),
        ("duration", "2.0 s", "–"),
        ("lr", "0.1", "–"),
        ("loss", "2", "–"),
        ("data, ms a step", "100", "–"),
    )


def test_ranks_say_where_they_are_and_what_they_run():
    table = ranks_table([RankFact(1, 0, "here", 4000, 7, "3.13.1", "Open MPI v5.0.11")])

    assert table.rows == (("0", "here", "4000", "3.13.1", "Open MPI v5.0.11"),)
