"""Each test runs in exactly one of the lanes of `make test`."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

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
