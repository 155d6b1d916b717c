"""What low-rank averaging leaves out of a step is neither lost nor sent twice."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from workbench.engine.exchange.powersgd import PowerSgd

# Less than a block, several blocks with a remainder, and more than two axes.
SHAPES = [(40, 30), (700, 290), (64, 32, 3, 3)]
# One row is more than a block.
WIDE = (17, 70_000)


def alone(shapes: Any = SHAPES, rank: int = 4) -> PowerSgd:
    """Return the codec of a single rank, whose mean is its own number."""
    comm = SimpleNamespace(allgather=lambda value: [value])
    transport: Any = SimpleNamespace(comm=comm, rank=0, size=1)
    return PowerSgd(transport, shapes, rank, lambda flat: None)


def gradients(seed: int, shapes: Any = SHAPES) -> list[Any]:
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape, "f4") for shape in shapes]


def flat(arrays: Any) -> Any:
    return np.concatenate([np.ravel(one) for one in arrays])


def stepped(codec: PowerSgd, given: list[Any]) -> Any:
    buffer = np.full(sum(one.size for one in given), np.nan, "f4")
    assert codec.mean(buffer, measure=True, gradients=given)
    return buffer


def test_means_and_remainder_are_all_that_was_given() -> None:
    codec = alone([*SHAPES, WIDE])
    steps = [gradients(seed, [*SHAPES, WIDE]) for seed in range(3)]
    untouched = [flat(one).copy() for one in steps]

    means = [stepped(codec, one) for one in steps]

    left = np.sum(untouched, axis=0) - np.sum(means, axis=0)
    np.testing.assert_allclose(codec.state()["lost"], left, atol=2e-4)
    assert all(np.array_equal(flat(a), b) for a, b in zip(steps, untouched, strict=True))
    assert 0.1 < codec.error < 1


def test_values_in_the_buffer_are_averaged_like_those_in_arrays() -> None:
    one, other = alone(), alone()
    for seed in range(3):
        given = gradients(seed)
        buffer = flat(given)
        other.mean(buffer, measure=False)

        assert np.array_equal(stepped(one, given), buffer)


def test_a_matrix_of_low_rank_arrives_whole_and_once() -> None:
    random = np.random.default_rng(0)
    for rank in (1, 2, 4):  # with fewer than four, rows of the factors depend on each other
        codec = alone([(500, 400)])
        matrix = random.standard_normal((500, rank), "f4") @ random.standard_normal(
            (rank, 400), "f4"
        )
        for _ in range(4):
            mean = stepped(codec, [matrix])
            np.testing.assert_allclose(mean, matrix.ravel(), atol=1e-3)
            assert codec.error < 0.01


def test_each_step_sends_both_factors() -> None:
    sent: list[int] = []
    codec = alone([(500, 400)])
    codec._mean = lambda flat: sent.append(flat.size)

    for seed in range(4):
        stepped(codec, gradients(seed, [(500, 400)]))

    assert sent == 4 * [2_000, 1_600]


def test_it_recovers_from_steps_without_gradient() -> None:
    codec = alone([(500, 400)])
    for _ in range(2):
        assert not stepped(codec, [np.zeros((500, 400), "f4")]).any()

    matrix = np.outer(np.arange(500), np.arange(400)).astype("f4")
    total = sum(stepped(codec, [matrix]) for _ in range(6)).reshape(500, 400)

    assert np.linalg.norm(total - 6 * matrix) < 1e-3 * np.linalg.norm(6 * matrix)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_number_that_is_not_finite_is_found_and_forgotten(bad, steps) -> None:
    codec = alone()
    for seed in range(steps):
        without_a_column = gradients(seed)
        without_a_column[0][:, 7] = 0  # so that the factor has a zero there
        stepped(codec, without_a_column)
    given = gradients(9)
    given[0][3, 7] = bad

    assert not codec.mean(np.empty(flat(given).size, "f4"), measure=False, gradients=given)

    assert np.isfinite(codec.state()["lost"]).all()
    assert np.isfinite(stepped(codec, gradients(10))).all()


@pytest.mark.parametrize("done", [1, 2, 3])
def test_a_restored_codec_continues_with_the_same_bits(done) -> None:
    codec, restored = alone(), alone()
    for seed in range(done):
        stepped(codec, gradients(seed))
    restored.restore({name: np.copy(value) for name, value in codec.state().items()})

    for seed in itertools.islice(itertools.count(done), 3):
        assert np.array_equal(stepped(codec, gradients(seed)), stepped(restored, gradients(seed)))


def test_a_state_with_one_factor_is_continued_with_it() -> None:
    codec = alone([(500, 400)])
    matrix = np.outer(np.arange(500), np.arange(400)).astype("f4")
    right = np.random.default_rng(0).standard_normal((4, 400), "f4")
    right[2] = np.arange(400)

    codec.restore({"lost": np.zeros(200_000, "f4"), "right": right.ravel()})

    np.testing.assert_allclose(stepped(codec, [matrix]), matrix.ravel(), rtol=1e-3, atol=1)
    assert codec.nbytes == 0
