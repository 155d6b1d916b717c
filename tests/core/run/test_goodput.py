"""The paid time of a run is divided without a remainder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.run.goodput import Stretch, compute_goodput, sentence

SECONDS = st.floats(0, 1e6)
STRETCH = st.builds(Stretch, st.integers(1, 64), *(SECONDS,) * 5, st.booleans())


def test_each_part_counts_by_the_ranks_that_it_kept() -> None:
    found = compute_goodput(
        [Stretch(2, 100.0, 10.0, 20.0, begins=True), Stretch(1, 50.0, 5.0)], capacity=300.0
    )

    assert (found.paid, found.begun, found.paused) == (300.0, 20.0, 5.0)
    assert (found.redone, found.idle) == (40.0, 50.0)
    assert found.share == pytest.approx(1 - 115 / 300)


def test_what_passes_until_a_loss_is_noticed_is_no_progress_nor_what_nothing_saved() -> None:
    found = compute_goodput([Stretch(2, 92.0, 1.0, 4.0, 60.0), Stretch(1, 10.0, 2.0, unsaved=20.0)])

    assert (found.unnoticed, found.redone, found.unsaved) == (120.0, 8.0, 8.0)
    assert found.share == pytest.approx((2 * 27) / (2 * 92 + 10))
    assert "until a loss was noticed 61.9 %" in sentence(found)
    assert "steps that no snapshot has 4.1 %" in sentence(found)


def test_the_sentence_names_what_was_lost_and_the_cost() -> None:
    found = compute_goodput([Stretch(1, 1000.0, 10.0, 0.1, begins=True)], capacity=1250.0, cost=0.5)

    assert sentence(found) == (
        "Goodput: 79.2 % of the paid time became kept progress (until the first step 0.8 %, steps "
        "done again under 0.1 %, nodes without ranks 20.0 %). The run cost $0.50."
    )


def test_nothing_paid_is_no_progress() -> None:
    assert compute_goodput([]).share == 0.0


@given(st.lists(STRETCH), SECONDS)
def test_what_is_lost_is_never_more_than_what_is_paid(stretches, capacity) -> None:
    found = compute_goodput(stretches, capacity=capacity)

    assert 0 <= found.share <= 1
    without_steps = found.begun + found.paused + found.unnoticed + found.idle
    assert without_steps + found.redone + found.unsaved <= found.paid * (1 + 1e-9)
