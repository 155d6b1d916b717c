"""A run shows what it is made of, and runs with other arguments can be distinguished."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

from workbench.core.run.model import RunKind, RunWish
from workbench.core.run.origin import Origin
from workbench.core.run.run_options import RunOptions
from workbench.view.about_run import about_rows, points_of, wish_values, write_csv
from workbench.view.tables.listing import comparison_table, runs_table

ORIGIN = Origin("/w/a.ipynb", "1a2b3c4d5e6f", (("TOKEN", "secret-value"), ("GONE", None)))


def trained(store, name="fit", **more):
    """Queue a script with arguments, and return it."""
    origin = more.pop("origin", ORIGIN)
    options = RunOptions(arguments=("--lr", "0.2"), environment=(("JOB_KEY", "secret-value"),))
    wish = RunWish(
        f"id-{name}", name, RunKind.SCRIPT, "a = 1\nb = 2\n", path="/w/train.py", folder="/w",
        options=replace(options, **more), created=1e9, origin=origin,
    )  # fmt: skip
    return store.run(store.wish_run(wish).id)


def test_a_run_shows_what_it_is_made_of(store) -> None:
    rows = about_rows(trained(store))

    assert rows.pop("asked")
    assert rows == {
        "note": "",
        "source": "/w/train.py, 2 lines, fe9c2da",
        "arguments": "--lr 0.2",
        "notebook": "/w/a.ipynb",
        "git commit": "1a2b3c4d5e6f",
        "folder": "/w",
        "variables": "TOKEN, GONE, JOB_KEY",
        "files": "",
    }


def test_a_module_is_named_as_it_was_typed(store) -> None:
    run = trained(store, origin=Origin(module="pack.train"))

    assert about_rows(run)["source"].startswith("pack.train, 2 lines")


def test_runs_with_other_arguments_differ_in_lists(store) -> None:
    runs = [trained(store), trained(store, "other", arguments=("--lr", "0.4"))]

    listed, compared = runs_table(store, runs, 0.0), comparison_table(store, runs, 0.0)

    assert [row[listed.headers.index("given")] for row in listed.rows] == ["--lr 0.2", "--lr 0.4"]
    rows = {row[0]: row[1:] for row in compared.rows}
    assert rows["arguments"] == ("--lr 0.2", "--lr 0.4")
    assert not {"notebook", "git commit", "folder", "files"} & rows.keys()  # the same


def test_parameters_are_listed_with_the_arguments(store) -> None:
    run = trained(store, parameters=(("lr", 0.1), ("name", "a b")))

    (row,) = runs_table(store, [run], 0.0).rows

    assert row[1] == "--lr 0.2 lr=0.1 name='a b'"
    assert "given" not in runs_table(store, [trained(store, "bare", arguments=())], 0.0).headers


def test_a_note_is_shown_with_its_run(store) -> None:
    runs = [trained(store, note="twice the batch"), trained(store, "other")]

    listed, compared = runs_table(store, runs, 0.0), comparison_table(store, runs, 0.0)

    assert [row[listed.headers.index("note")] for row in listed.rows] == ["twice the batch", ""]
    assert ("note", "twice the batch", "–") in compared.rows
    assert "note" not in runs_table(store, runs[1:], 0.0).headers


def test_values_of_variables_are_never_shown(store) -> None:
    run = trained(store)

    said = json.dumps(wish_values(run, with_source=True)) + str(about_rows(run))

    assert "secret-value" not in said
    assert wish_values(run, with_source=True)["origin"]["environment"] == ["TOKEN", "GONE"]
    assert wish_values(run, with_source=True)["source"] == "a = 1\nb = 2\n"
    assert "source" not in wish_values(run, with_source=False)


def test_every_point_of_every_rank_is_a_row(store, queue, report) -> None:
    run = queue("fit")
    for rank in (0, 1):
        report(run, rank, loss=[2.0, 1.5], step__data=[0.1])
    file = io.StringIO()

    write_csv(store, [run], file)

    rows = [*csv.DictReader(io.StringIO(file.getvalue()))]
    assert [(row["run"], row["rank"], row["iteration"], row["value"]) for row in rows] == [
        ("fit", "0", "1", "2.0"),
        ("fit", "0", "2", "1.5"),
        ("fit", "1", "1", "2.0"),
        ("fit", "1", "2", "1.5"),
    ]
    assert [point.name for point in points_of(store, run.id)] == ["loss"] * 4
