"""Each test runs in exactly one of the lanes of `make test`."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from tests.lanes import SHARED, TESTS, can_choose, marks_possible, modules_of_part

MAKEFILE = (Path(__file__).parents[1] / "Makefile").read_text(encoding="utf-8")
LANES = {name: Expression.compile(rule) for name, rule in re.findall(
    r"^(QUICK|RANKS|KERNELS|BROWSER|ROOT) := (.+)$", MAKEFILE, re.M
)}  # fmt: skip
MARKS = ("mpi", "packaging", "kernel", "notebook", "browser", "root")


@pytest.mark.parametrize("marks", list(itertools.product((False, True), repeat=len(MARKS))))
def test_every_combination_of_marks_is_in_one_lane(marks: tuple[bool, ...]) -> None:
    given = dict(zip(MARKS, marks, strict=True))

    chosen = [name for name, lane in LANES.items() if lane.evaluate(given.__getitem__)]

    assert len(LANES) == 5
    assert len(chosen) == 1


def test_marks_are_found_in_what_a_module_imports_and_in_its_fixtures() -> None:
    """By them a lane leaves modules out, so only these may give any."""
    assert "mpi" in marks_possible(TESTS / "engine" / "test_rank.py")
    assert "root" in marks_possible(TESTS / "cluster" / "test_contract.py")  # by a fixture
    assert "root" not in marks_possible(TESTS / "engine" / "test_run_log.py")
    givers = [path for path in TESTS.rglob("*.py") if "add_marker(" in path.read_text()]
    assert {*givers} == {TESTS / "conftest.py", Path(__file__)}


@pytest.mark.parametrize(
    ("expression", "marks", "chooses"),
    [
        ("mpi", {"mpi"}, True),
        ("mpi", {"kernel"}, False),
        ("not mpi", {"mpi"}, True),  # a module may have tests with the mark and without
        ("mpi and not (kernel or root)", {"mpi", "kernel"}, True),
        ("(contract and mpi) or either_mpi", {"mpi"}, False),
        ("(contract and mpi) or either_mpi", {"mpi", "contract"}, True),
        ("not slow", set(), True),
        ("timeout(method='thread')", {"timeout"}, True),
    ],
)
def test_a_module_is_left_out_if_no_test_of_it_can_be_chosen(
    expression: str, marks: set[str], chooses: bool
) -> None:
    assert can_choose(expression, frozenset(marks)) is chooses


@pytest.mark.parametrize("expression", ["", "mpi"])
def test_parts_have_each_module_once(expression: str) -> None:
    whole = modules_of_part(expression, 1, 1)

    parts = [modules_of_part(expression, number, 3) for number in (1, 2, 3)]

    assert frozenset().union(*parts) == whole
    assert sum(len(part - SHARED) for part in parts) == len(whole - SHARED)
    assert TESTS / "engine" / "test_rank.py" in whole
