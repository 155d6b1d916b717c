"""A supervisor that crashes is followed by another, unless crashes follow each other."""

from __future__ import annotations

import pytest

from workbench.supervisor.process import (
    CRASHES_VARIABLE,
    MOST_CRASHES,
    STEADY_SECONDS,
    may_start_again,
)


def test_crashes_in_a_row_are_counted_and_steady_work_forgets_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(CRASHES_VARIABLE, "0")

    assert [may_start_again(1.0) for _ in range(MOST_CRASHES + 1)] == [True] * MOST_CRASHES + [
        False
    ]
    assert may_start_again(STEADY_SECONDS)
