"""What runs every time, once a week, and in the inner loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import weekly
from tests.conftest import SLOW

ROOT = Path(__file__).parents[1]


def test_every_slow_module_is_there() -> None:
    assert [name for name in sorted(SLOW) if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize(
    ("is_weekly", "number", "tried"),
    [(True, 2000, 2000), (False, 2000, 200), (False, 100, 25), (False, 10, 10)],
)
def test_a_tenth_of_the_examples_is_tried_unless_it_is_weekly(
    monkeypatch, is_weekly, number, tried
) -> None:
    monkeypatch.setattr(weekly, "WEEKLY", is_weekly)

    assert weekly.examples(number) == tried
