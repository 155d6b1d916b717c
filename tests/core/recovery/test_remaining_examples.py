"""The examples of an epoch that are left are dealt out among other ranks."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from workbench.core.recovery.remaining_examples import are_divided, dealt, order_with_rest, smallest


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("lists", [[[3, 1, 2]], [[0, 4, 8], [1, 5], [9, 7]], [[], [2]], [[], []]])
def test_each_example_is_dealt_out_and_all_ranks_get_as_many(lists, ranks) -> None:
    hands = [dealt([np.array(one) for one in lists], rank, ranks).tolist() for rank in range(ranks)]

    every = [number for one in lists for number in one]
    assert {len(one) for one in hands} == {-(-len(every) // ranks)}
    counted = Counter(number for one in hands for number in one)
    assert counted.keys() == {*every}
    assert counted.total() - len(every) < ranks


def test_they_keep_about_the_order_of_the_ranks_before() -> None:
    remaining = [np.array([10, 11, 12]), np.array([20, 21, 22])]

    assert dealt(remaining, 0, 1).tolist() == [10, 20, 11, 21, 12, 22]
    assert dealt(remaining, 0, 3).tolist() == [10, 21]


def test_an_example_that_two_ranks_had_is_dealt_out_once() -> None:
    remaining = [np.array([1, 2, 3]), np.array([3, 4])]

    assert Counter(dealt(remaining, 0, 1).tolist()) == {1: 1, 2: 1, 3: 1, 4: 1}


def test_ranks_with_different_examples_are_distinguished() -> None:
    first, second = np.array([0, 2, 4]), np.array([1, 3, 0])

    assert are_divided([first, second])
    assert not are_divided([first, first])
    assert are_divided([first[:0], second[:0]])


def test_what_a_rank_repeats_on_purpose_is_repeated() -> None:
    assert Counter(dealt([np.array([1, 1, 2])], 0, 1).tolist()) == {1: 2, 2: 1}


def test_the_rest_is_at_the_end_of_an_order_of_the_same_length() -> None:
    order, position = order_with_rest(2, 5)

    assert len(order) == 5
    assert order[position:].tolist() == [5, 6]


def test_more_than_an_epoch_is_cut() -> None:
    order, position = order_with_rest(7, 5)

    assert (len(order), position) == (5, 0)
    assert order.tolist() == [5, 6, 7, 8, 9]


@pytest.mark.parametrize(("most", "kind"), [(200, "u1"), (60_000, "u2"), (1_300_000, "u4")])
def test_numbers_take_little_room(most, kind) -> None:
    assert smallest(np.array([0, most])).dtype == np.dtype(kind)
    assert len(smallest(np.array([], int))) == 0
