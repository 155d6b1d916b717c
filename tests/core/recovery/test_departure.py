"""A run moves to another size at the step, at the end of its epoch, or after its end."""

from __future__ import annotations

import pytest

from workbench.core.cluster.model import ResizeAt
from workbench.core.recovery.departure import (
    INTERRUPT_SECONDS,
    Departure,
    EpochPace,
    check_epochs,
    departure,
    lead_seconds,
    shortened_grace,
    why_it_waits,
)
from workbench.core.run.model import RunFact
from workbench.errors import InputError

TRAINS = RunFact("a", iteration=50, epoch=0.5)
NO_EPOCHS = RunFact("a", iteration=50)
HALFWAY = EpochPace().at(0.1, 100.0).at(0.5, 140.0)  # 100 s for an epoch


def test_a_run_leaves_at_the_next_step_by_default() -> None:
    assert departure(ResizeAt.STEP, NO_EPOCHS, EpochPace(), 0.0, is_reclaimed=False) == "due"


@pytest.mark.parametrize(
    ("now", "expected"), [(140.0, "later"), (186.9, "later"), (187.1, "due"), (200.0, "due")]
)
def test_it_is_asked_shortly_before_the_end_of_the_epoch(now, expected) -> None:
    assert departure(ResizeAt.EPOCH, TRAINS, HALFWAY, now, is_reclaimed=False) == expected


def test_the_last_tenth_of_an_epoch_is_near_at_any_pace() -> None:
    slow = EpochPace().at(1.0, 0.0).at(1.95, 95_000.0)

    assert slow.is_near(95_000.0)
    assert not EpochPace().at(1.0, 0.0).at(1.85, 85_000.0).is_near(85_000.0)


def test_an_epoch_that_has_just_ended_is_not_near_its_end() -> None:
    assert not EpochPace().at(0.5, 0.0).at(2 - 1e-9, 150.0).is_near(150.0)


@pytest.mark.parametrize("at", [ResizeAt.EPOCH, ResizeAt.END])
def test_a_node_that_is_taken_back_is_left_at_once(at) -> None:
    assert departure(at, TRAINS, HALFWAY, 140.0, is_reclaimed=True) is Departure.DUE


def test_a_run_without_epochs_is_waited_for() -> None:
    assert departure(ResizeAt.EPOCH, NO_EPOCHS, EpochPace(), 0.0, is_reclaimed=False) == "never"
    assert "no epochs" in why_it_waits(ResizeAt.EPOCH, NO_EPOCHS, 4)


def test_before_its_first_step_a_run_may_still_have_epochs() -> None:
    fact = RunFact("a")

    assert departure(ResizeAt.EPOCH, fact, EpochPace(), 0.0, is_reclaimed=False) == "later"
    check_epochs(ResizeAt.EPOCH, "digits", fact)


def test_the_end_of_an_epoch_of_a_run_that_has_none_is_refused() -> None:
    with pytest.raises(InputError, match=r"'digits' reports no epochs.*--at step"):
        check_epochs(ResizeAt.EPOCH, "digits", NO_EPOCHS)
    check_epochs(ResizeAt.END, "digits", NO_EPOCHS)


def test_a_pending_move_says_where_to_and_when() -> None:
    assert why_it_waits(ResizeAt.EPOCH, TRAINS, 4) == (
        "It moves to 4 ranks at the end of this epoch."
    )
    assert why_it_waits(ResizeAt.END, TRAINS, 1) == "The change to 1 rank waits until it has ended."


@pytest.mark.parametrize(
    ("grace", "rate", "copy", "lead"),
    [
        (5.0, 0.0, 0.0, 5.0),  # its pace is unknown
        (600.0, 4.0, 0.0, 3.0),  # a long grace is not used up by short steps
        (600.0, 0.01, 20.0, 422.0),
        (5.0, 0.01, 20.0, 25.0),  # steps longer than the grace are interrupted
    ],
)
def test_a_run_is_asked_to_stop_in_time_for_its_last_snapshot(grace, rate, copy, lead) -> None:
    assert lead_seconds(grace, rate, copy) == lead + INTERRUPT_SECONDS


def test_ranks_that_do_not_stop_are_interrupted_before_their_nodes_go() -> None:
    assert shortened_grace(5.0, 100.0, 10.0) == 5.0
    assert shortened_grace(60.0, 20.0, 10.0) == 10.0 - INTERRUPT_SECONDS
    assert shortened_grace(60.0, 4.0, 0.0) == 2.0
    assert shortened_grace(60.0, 1.0, 10.0) == 0.0
