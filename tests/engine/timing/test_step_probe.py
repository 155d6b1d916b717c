"""All ranks meet before some exchanges: waiting and transfer are separated, and no rank hangs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import OnRanks
from workbench.core.performance.step_sampling import (
    MOST_STEPS,
    own_work,
    part_names,
    part_seconds,
    split,
    steps_between,
)
from workbench.engine.timing.call_timing import nbytes_of

Found = list[dict[str, Any]]
PROGRAMS = Path(__file__).parents[1] / "programs"
LONGER = (1, 5)


def waits(quick, slow, seconds: float) -> bool:
    """Whether the quick rank waits about ``seconds``."""
    enough = 0.5 * seconds <= quick["step/waiting"] <= 2 * seconds
    return enough and max(quick["step/moving"], slow["step/waiting"]) < 0.4 * seconds


def train(on_ranks: OnRanks, program: Path, seconds: float, *arguments: str) -> Found:
    """Train on two ranks; the quick one waits for ``seconds`` in each step.

    Where other programs take the cores it is done again with steps that are longer.
    """
    for longer in LONGER:
        found = on_ranks(program, 2, str(longer), *arguments)
        if waits(*found, longer * seconds):
            break
    else:
        pytest.fail(f"the quick rank does not wait for {longer * seconds} s: {found}")
    return found


@pytest.mark.mpi
@pytest.mark.contract
@pytest.mark.either_mpi
def test_a_rank_that_waits_is_distinguished_from_one_that_moves_bytes(on_shared_ranks) -> None:
    for parts in train(on_shared_ranks, PROGRAMS / "slow_rank.py", 0.025):
        assert parts["step/waiting"] + parts["step/moving"] == pytest.approx(
            parts["step/communication"]
        )


@pytest.mark.mpi
@pytest.mark.contract
def test_bytes_and_calls_of_an_exchange_are_counted(on_shared_ranks) -> None:
    for parts in train(on_shared_ranks, PROGRAMS / "many_arrays.py", 0.02):
        assert parts["exchange/calls"] == 3
        assert parts["exchange/nbytes"] == 4 * (10 + 200 + 3000)
        assert 5 <= parts["met"] <= 100


@pytest.mark.mpi
@pytest.mark.contract
def test_ranks_that_do_different_things_meet_all_the_same(on_shared_ranks) -> None:
    found = on_shared_ranks(PROGRAMS / "unlike_ranks.py", 4)

    assert [one["sum"] for one in found] == [4] * 4
    assert len({one["met"][0] for one in found}) == 1
    assert all(met > 1 for one in found for met in one["met"])


@pytest.mark.mpi
def test_a_barrier_of_the_training_counts_as_waiting(on_shared_ranks) -> None:
    train(on_shared_ranks, PROGRAMS / "slow_rank.py", 0.025, "barrier")


@pytest.mark.mpi
def test_what_was_exchanged_before_the_training_is_no_measure_of_its_steps(on_shared_ranks) -> None:
    first, _ = on_shared_ranks(PROGRAMS / "prepared_world.py", 2)

    assert first["met"] > 10


@pytest.mark.mpi
@pytest.mark.parametrize("way", ["afterwards", "overlap"])
def test_waiting_is_distinguished_in_our_own_exchange_too(on_shared_ranks, way) -> None:
    quick, _ = train(on_shared_ranks, PROGRAMS / "own_exchange.py", 0.025, way)

    assert quick["exchange/nbytes"] == pytest.approx(4 * 3_100, rel=0.01)


@pytest.mark.mpi
def test_a_rank_that_is_alone_meets_no_one(on_shared_ranks) -> None:
    (alone,) = on_shared_ranks(PROGRAMS / "many_arrays.py", 1)

    assert alone["met"] == 0
    assert "step/waiting" not in alone


def test_dear_barriers_and_short_steps_are_looked_at_rarely() -> None:
    assert steps_between(1.0, 1e-4) == 1
    assert steps_between(0.001, 1e-5) == 100
    assert steps_between(0.001, 1e-3) == 510
    assert steps_between(1e-6, 1.0) == MOST_STEPS
    assert 1 < steps_between(0.0, 1e-5) < 100


def test_waiting_and_moving_are_all_of_communication() -> None:
    assert split(5.0, [1.0, 2.0, 30.0]) == (3.0, 2.0)
    assert split(1.0, [2.0]) == (0.0, 1.0)


def test_what_a_rank_does_on_its_own_is_no_communication() -> None:
    parts = {"compute": 1.0, "communication": 5.0, "waiting": 3.0, "moving": 2.0, "other": 0.5}

    assert own_work(parts) == 1.5


def test_messages_between_two_are_a_part_of_their_own_where_there_are_any() -> None:
    whole = {"compute": 1.0, "communication": 2.0, "data": 0.0, "other": 0.0}
    parts = whole | {"point-to-point": 0.5}
    names = part_names({0: whole, 1: parts})

    assert names == ("compute", "communication", "point-to-point", "data", "other")
    assert part_seconds(parts, names) == (1.0, 2.0, 0.5, 0.0, 0.0)
    assert part_seconds(whole, names) == (1.0, 2.0, 0.0, 0.0, 0.0)
    assert own_work(parts) == 1.0


def test_communication_that_was_not_distinguished_counts_as_moving() -> None:
    assert part_seconds({"compute": 1.0, "communication": 2.0}, ("waiting", "moving")) == (0.0, 2.0)


@pytest.mark.parametrize(
    ("buffer", "nbytes"),
    [(memoryview(b"12345678"), 8), ([memoryview(b"1234"), 4, "float"], 4), ([], 0), (1, 0)],
)
def test_the_size_of_a_buffer_is_seen_where_it_says_it(buffer, nbytes) -> None:
    assert nbytes_of(buffer) == nbytes
