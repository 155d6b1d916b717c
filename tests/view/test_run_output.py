"""What stays in a saved notebook is whole, small, and needs nothing else."""

from __future__ import annotations

import base64
import json
import math

from tests.pages.test_frames import read
from workbench.core.run.metrics import MOST_DRAWN
from workbench.core.run.model import RunState
from workbench.core.run.rank_protocol import MOST_NAMES
from workbench.pages.protocol import RUN_TYPE
from workbench.view.html import sentence
from workbench.view.run_output import kept_bundle


def ended(store, supervisor, run):
    supervisor.put_run_fact(
        run.id, state=RunState.FINISHED, ranks=2, started=1.0, ended=5.0, iteration=3
    )
    return store.run(run.id)


def test_picture_words_curves_and_output_stay(store, supervisor, queue, report) -> None:
    run = queue("digits")
    for rank in range(2):
        report(run, rank, f"hello from {rank}\n", main__loss=[3.0, 2.0, 1.0], step__compute=[0.1])

    bundle = kept_bundle(store, ended(store, supervisor, run), 9.0)

    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    label = "main/loss falls from 3 to 1 over 2 iterations; A step takes 100 ms: "
    assert f'<img alt="{label}' in bundle["text/html"]
    assert "hello from 1" in bundle["text/html"]
    assert "Run digits: finished · iteration 3 · 2 ranks · took 4.0 s" in bundle["text/plain"]
    saved = bundle[RUN_TYPE]["saved"]
    assert saved["run"]["values"] == {"main/loss": 1.0}
    assert len(saved["steps"]["ranks"]) == 2
    _, (columns,) = read(base64.b64decode(saved["frame"]))
    assert columns["median"].tolist() == [3.0, 2.0, 1.0]


def test_a_long_run_with_many_names_stays_below_100_kilobytes(
    store, supervisor, queue, report
) -> None:
    run = queue("digits")
    values = [math.sin(i) for i in range(5_000)]
    report(run, 0, **{f"layer{i}/norm": values for i in range(12)})

    bundle = kept_bundle(store, ended(store, supervisor, run), 9.0)

    assert len(json.dumps(bundle[RUN_TYPE])) < 100_000


def test_a_cell_that_only_printed_keeps_one_line_and_its_print(store, supervisor, queue) -> None:
    bundle = kept_bundle(store, ended(store, supervisor, queue("digits")), 9.0)

    assert "image/png" not in bundle
    assert "Saved as " not in bundle["text/html"]
    assert "Saved as " in bundle["text/plain"]


def test_a_run_that_failed_without_points_says_where_it_is_kept(store, supervisor, queue) -> None:
    run = queue("digits")
    supervisor.put_run_fact(run.id, state=RunState.FAILED, ranks=2, started=1.0, ended=5.0)

    bundle = kept_bundle(store, store.run(run.id), 9.0)

    assert "<p>Saved as " in bundle["text/html"]


def test_what_is_to_be_typed_is_set_apart() -> None:
    assert sentence("`--compress fp16` gives <2×.") == (
        "<code>--compress fp16</code> gives &lt;2×."
    )


def test_of_very_many_names_the_first_stay_and_the_others_are_counted(
    store, supervisor, queue, report
) -> None:
    run = queue("digits")
    report(run, 0, **{f"name_{number}": [1.0] for number in range(MOST_NAMES)})

    bundle = kept_bundle(store, ended(store, supervisor, run), 9.0)

    _, columns = read(base64.b64decode(bundle[RUN_TYPE]["saved"]["frame"]))
    assert len(columns) == MOST_DRAWN
    for form in ("text/html", "text/plain"):
        assert "950 more names are left out, all are in the store" in bundle[form]
    assert len(json.dumps(bundle)) < 500_000


def test_of_very_much_output_the_newest_stays_and_it_is_said_where_all_is(
    store, supervisor, queue, report
) -> None:
    run = queue("digits")
    for start in range(0, 60_000, 10_000):
        lines = (f"line {n}".ljust(100, ".") for n in range(start, start + 10_000))
        report(run, 0, "\n".join(lines) + "\n")

    html = kept_bundle(store, ended(store, supervisor, run), 9.0)["text/html"]

    assert "line 59999" in html
    assert "line 30000." not in html
    assert "earlier lines are left out, all are in <code>workbench logs digits</code>" in html
    assert len(html) < 400_000
