"""A run's name and id are validated, and final states are known."""

from __future__ import annotations

import pytest

from workbench.core.run.model import (
    Run,
    RunFact,
    RunKind,
    RunState,
    RunWish,
    check_run_name,
    only_printed,
)
from workbench.core.run_id import is_run_id
from workbench.errors import InputError

SCRIPTS = ["лосс 模型", "学習 1", "נסיון", "हिन्दी"]


@pytest.mark.parametrize(
    "name", ["fit", "mnist lr=0.1", "Läufe 2", "a.b+c_d-e", "x" * 80, "7", *SCRIPTS]
)
def test_a_plain_name_is_taken_as_it_is(name) -> None:
    assert check_run_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        " fit",
        "fit\n",
        "a/b",
        "*",
        "-rf",
        "a\tb\\c",
        "x" * 300,
        "\u202eabc",
        "a\ud800",
        "\N{ROCKET}",
    ],
)
def test_a_name_that_breaks_a_listing_is_refused(name) -> None:
    with pytest.raises(InputError) as refusal:
        check_run_name(name)

    assert "cannot name a run; use 1 to 80 letters and digits of any script" in str(refusal.value)
    assert len(str(refusal.value)) < 250


@pytest.mark.parametrize(
    ("text", "is_id"),
    [
        ("260714-091500-ab7z", True),
        ("260714-091500-ab7z/..", False),
        ("260714-091500-AB7Z", False),
        ("260714-091500-ab1z", False),
        ("260714-091500-ab7z\n", False),
        ("../../etc", False),
        ("", False),
    ],
)
def test_only_the_form_of_an_id_is_taken_for_one(text, is_id) -> None:
    assert is_run_id(text) is is_id


@pytest.mark.parametrize(
    ("state", "ended"),
    [
        (RunState.QUEUED, False),
        (RunState.SUBMITTED, False),
        (RunState.RUNNING, False),
        (RunState.STOPPING, False),
        (RunState.FINISHED, True),
        (RunState.FAILED, True),
        (RunState.STOPPED, True),
        (RunState.LOST, True),
    ],
)
def test_a_state_knows_whether_more_will_come(state, ended) -> None:
    assert state.ended is ended


def test_the_repr_of_a_run_has_its_state() -> None:
    wish = RunWish("260714-091500-ab7z", "fit", RunKind.CELL, "pass")
    run = Run(wish, RunFact(wish.id, RunState.RUNNING, iteration=12))

    assert run.id == wish.id
    assert repr(run) == "<Run fit: running, iteration 12>"


@pytest.mark.parametrize(
    ("kind", "state", "has_values", "is_so"),
    [
        ("cell", "finished", False, True),
        ("setup", "finished", False, True),
        ("cell", "finished", True, False),
        ("cell", "failed", False, False),
        ("cell", "running", False, False),
        ("measurement", "finished", False, False),
    ],
)
def test_what_finished_without_a_value_only_printed(kind, state, has_values, is_so) -> None:
    run = Run(RunWish("a", "a", RunKind(kind), "1"), RunFact("a", RunState(state)))

    assert only_printed(run, has_values) is is_so
