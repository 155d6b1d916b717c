"""Each quantity is written by one rule, in Python as in the extension."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from workbench.core import units
from workbench.core.units import gbits, size_text

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


@pytest.mark.parametrize(
    ("nbytes", "said"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (24_400, "24.4 kB"),
        (999_950, "1 MB"),
        (16_384_000, "16.4 MB"),
        (123_456_789, "123 MB"),
        (1_340e6, "1.34 GB"),
    ],
)
def test_bytes_are_reported_as_a_person_reads_them(nbytes, said) -> None:
    assert size_text(nbytes) == said


@pytest.mark.parametrize(
    ("rate", "said"), [(1.44, "1.44"), (0.00837, "0.00837"), (999.4, "999"), (2880, "2,880")]
)
def test_gbits_are_reported_without_powers_of_ten(rate, said) -> None:
    assert gbits(rate * 1e9 / 8) == said
