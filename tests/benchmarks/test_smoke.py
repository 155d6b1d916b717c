"""See that the benchmarks measure something; what they measure is never asserted here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks.__main__ import main


def test_the_benchmarks_leave_every_value_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"

    status = main(["import_cost", "--rounds", "1", "--json", str(file)])

    rows = json.loads(file.read_text(encoding="utf-8"))["benchmarks"]["import_cost"]
    assert status == 0
    assert all(row["ours"]["values"] for row in rows)


@pytest.mark.mpi
def test_a_benchmark_with_ranks_leaves_nothing_behind(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"

    status = main(["cold_start", "--rounds", "1", "--json", str(file)])

    (row,) = json.loads(file.read_text(encoding="utf-8"))["benchmarks"]["cold_start"]
    assert status == 0
    assert row["ratio"] > 0


def test_an_unknown_benchmark_is_refused_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["speed"])

    assert "no benchmark is called 'speed'; there are iteration, " in capsys.readouterr().err
