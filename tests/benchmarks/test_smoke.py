"""See that the benchmarks measure something; what they measure is never asserted here."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchmarks import live_view
from benchmarks.__main__ import main
from benchmarks.place import Place


def test_the_benchmarks_leave_every_value_in_a_file(tmp_path: Path, monkeypatch) -> None:
    file = tmp_path / "figures.json"
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # would make starts of processes slower

    status = main(["import_cost", "--rounds", "1", "--json", str(file)])

    rows = json.loads(file.read_text(encoding="utf-8"))["benchmarks"]["import_cost"]
    assert status == 0
    assert all(row["ours"]["values"] for row in rows)
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ


@pytest.mark.mpi
@pytest.mark.weekly
def test_a_benchmark_with_ranks_leaves_nothing_behind(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"

    status = main(["cold_start", "--rounds", "1", "--json", str(file)])

    (row,) = json.loads(file.read_text(encoding="utf-8"))["benchmarks"]["cold_start"]
    assert status == 0
    assert row["ratio"] > 0


@pytest.mark.browser
@pytest.mark.weekly
@pytest.mark.timeout(300)
def test_the_live_view_is_watched_in_a_real_page() -> None:
    if sentence := live_view.missing():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(sentence)
    size = live_view.Size(ours=2_000, theirs=1_000, idle_seconds=0.5, seconds=1.0)

    with Place() as place:
        rows = live_view.measure(place, 1, print, size)

    drawn = [row for row in rows if row.what == live_view.PICTURES]
    assert drawn
    assert all(series.median > 0 for row in drawn for series in (row.ours, row.theirs))


def test_an_unknown_benchmark_is_refused_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["speed"])

    assert "no benchmark is called 'speed'; there are first_iteration, " in capsys.readouterr().err
