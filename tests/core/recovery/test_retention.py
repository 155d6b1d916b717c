"""Runs to delete meet all of the given conditions."""

from __future__ import annotations

import pytest

from workbench.core.recovery.retention import KeptRun, Retention, choose_runs
from workbench.errors import InputError

DAY = 86_400.0
NOW = 100 * DAY
RUNS = [KeptRun(f"id{n}", f"run {n}", NOW - n * DAY, n * 1000) for n in range(1, 6)]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"names": ["run 2", "id4"]}, [2, 4]),
        ({"older": 3 * DAY}, [4, 5]),
        ({"larger": 2000}, [3, 4, 5]),
        ({"keep": 2}, [3, 4, 5]),
        ({"keep": 0}, [1, 2, 3, 4, 5]),
        ({"keep": 1, "older": DAY, "larger": 2500}, [3, 4, 5]),
        ({"names": ["run 1", "run 5"], "older": 2 * DAY}, [5]),
    ],
)
def test_runs_are_chosen_by_name_age_size_and_number(asked, found) -> None:
    assert [run.name for run in choose_runs(RUNS, now=NOW, **asked)] == [f"run {n}" for n in found]


def test_nothing_is_chosen_by_saying_nothing() -> None:
    with pytest.raises(InputError, match=r"Say which runs to delete: their names, --older-than"):
        choose_runs(RUNS, now=NOW)


def test_less_than_no_run_cannot_be_kept() -> None:
    with pytest.raises(InputError, match="--keep must be at least 0, not -1"):
        choose_runs(RUNS, now=NOW, keep=-1)


def test_a_retention_says_what_becomes_of_runs() -> None:
    assert str(Retention()) == "all runs are kept until you delete them"
    assert str(Retention(90 * DAY, 5 * 10**9)) == (
        "ended runs are deleted 90 d after they ended and from the oldest while all take more "
        "than 5 GB"
    )
