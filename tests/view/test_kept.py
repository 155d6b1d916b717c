"""What stays in a saved notebook is whole, small, and needs nothing else."""

from __future__ import annotations

import base64
import json
import math

from tests.core.test_frames import read
from workbench.core.run import RunState
from workbench.view.bars import with_code
from workbench.view.kept import RUN_TYPE, kept_bundle


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
    label = "main/loss falls from 3 to 1 over 2 iterations; A step takes: "
    assert f'<img alt="{label}' in bundle["text/html"]
    assert "hello from 1" in bundle["text/html"]
    assert "Run digits: finished on 2 ranks, iteration 3, 4.0 s" in bundle["text/plain"]
    saved = bundle[RUN_TYPE]["saved"]
    assert saved["run"]["values"] == {"main/loss": 1.0, "step/compute": 0.1}
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


def test_a_run_without_points_keeps_its_words(store, supervisor, queue) -> None:
    bundle = kept_bundle(store, ended(store, supervisor, queue("digits")), 9.0)

    assert "image/png" not in bundle
    assert "<p>Kept as " in bundle["text/html"]


def test_what_is_to_be_typed_is_set_apart() -> None:
    assert with_code("`--compress fp16` gives <2×.") == (
        "<code>--compress fp16</code> gives &lt;2×."
    )
