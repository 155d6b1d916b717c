"""The conclusion of a run is stored once, and deleted with the run."""

from __future__ import annotations

import math

import pytest

from workbench.core.run.conclusion import Conclusion
from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import Batch
from workbench.core.run.samples import Sample
from workbench.store import Store

SOME = Conclusion(
    {"loss": 0.5, "best": math.inf},
    {0: {"compute": 0.1}, 1: {"compute": 0.2}},
    1,
    ("So.",),
    0.1,
    64,
)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store.sqlite3") as store:
        yield store


@pytest.fixture
def run(store) -> str:
    store.wish_run(RunWish("260101-000000-aaaa", "fit", RunKind.CELL, "pass"))
    store.add_batches([Batch("260101-000000-aaaa", 0, 1, (Sample("loss", 1, 0.0, 0.5),))])
    store.put_run_fact("260101-000000-aaaa", state=RunState.FINISHED)
    return "260101-000000-aaaa"


def test_what_was_kept_is_read_as_it_was(store, run) -> None:
    assert store.conclusion(run) is None
    assert store.keep_conclusion(run, SOME) == SOME
    assert store.conclusion(run) == SOME


def test_who_comes_second_gets_what_the_first_has_kept(store, run) -> None:
    store.keep_conclusion(run, SOME)

    assert store.keep_conclusion(run, Conclusion(says=("Otherwise.",))) == SOME


def test_last_values_stay_as_they_were_concluded(store, run) -> None:
    store.keep_conclusion(run, Conclusion(store.final_values(run)))
    store.add_batches([Batch(run, 0, 2, (Sample("loss", 2, 0.0, 9.0),))])

    assert store.final_values(run) == {"loss": 0.5}


def test_a_conclusion_goes_with_its_run(store, run) -> None:
    store.keep_conclusion(run, SOME)

    store.delete_run(run)

    assert store.conclusion(run) is None


def test_a_conclusion_that_makes_no_sense_counts_as_none(store, run) -> None:
    with store._transaction() as connection:
        connection.execute("INSERT INTO conclusions VALUES (?, '{]')", (run,))

    assert store.conclusion(run) is None
