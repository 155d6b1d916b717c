"""Each quantity is written by one rule, in Python as in the extension."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from workbench.core import units

CASES = json.loads((Path(__file__).parent / "units.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("rule", "given", "text"),
    [(rule, given, text) for rule, cases in CASES.items() for *given, text in cases],
)
def test_a_number_is_written_by_its_rule(rule: str, given: list[float], text: str) -> None:
    made: Any = getattr(units, rule)(*given)

    assert made == text


@pytest.mark.parametrize("exponent", range(-12, 7))
def test_only_nothing_costs_nothing(exponent: int) -> None:
    assert float(units.dollars(10.0**exponent).lstrip("$").replace(",", "")) > 0


def test_what_is_no_number_is_reported() -> None:
    assert [units.number(value) for value in (math.nan, math.inf)] == ["nan", "inf"]
