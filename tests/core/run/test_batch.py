"""What to keep of the batch on other ranks is chosen by name."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.fleet.model import FleetWish
from workbench.core.run.batch import (
    early_environment,
    epoch_order,
    grows,
    share,
    total_batch,
)


def test_a_run_that_begins_while_nodes_boot_knows_the_ranks_on_all_of_them() -> None:
    early = FleetWish("ec2", nodes=3, starts_early=True)

    assert early_environment(early, ["a", "a"]) == (("WORKBENCH_RANKS_WANTED", "6"),)
    assert early_environment(early, ["a", "b", "c"]) == ()
    assert early_environment(FleetWish("ec2", nodes=3), ["a", "a"]) == ()


def test_a_run_that_begins_again_on_fewer_ranks_is_to_have_those_that_it_had() -> None:
    fleet = FleetWish("ec2", nodes=3)
    early = FleetWish("ec2", nodes=3, starts_early=True)

    assert early_environment(fleet, ["a"], before=3) == (("WORKBENCH_RANKS_WANTED", "3"),)
    assert early_environment(early, ["a"], before=2) == (("WORKBENCH_RANKS_WANTED", "3"),)
    assert early_environment(fleet, ["a", "b", "c"], before=3) == ()


@pytest.mark.parametrize(
    ("most", "ranks", "wanted", "does"),
    [(1, 2, 4, True), (2, 4, 4, True), (1, 8, 4, True), (2, 1, 4, False), (4, 8, 4, False),
     (1, 2, 0, False)],
)  # fmt: skip
def test_a_batch_grows_until_all_ranks_that_were_asked_for_have_been_there(
    most, ranks, wanted, does
) -> None:
    assert grows(most, ranks, wanted) == does


@given(st.integers(1, 40), st.integers(1, 9))
def test_the_shares_of_a_batch_have_each_example_once(length, ranks) -> None:
    batch = np.arange(length) * 3

    shares = [share(batch, rank, ranks) for rank in range(ranks)]

    counted = [part for part, weight in shares if weight]
    np.testing.assert_array_equal(np.concatenate(counted), batch)
    assert max(map(len, counted)) - min(map(len, counted)) <= 1


@given(st.integers(1, 40), st.integers(1, 9))
def test_the_mean_of_weighted_means_is_the_mean_of_the_batch(length, ranks) -> None:
    batch = np.random.RandomState(length).permutation(length)

    means = [
        part.mean() * weight for part, weight in (share(batch, r, ranks) for r in range(ranks))
    ]

    np.testing.assert_allclose(np.mean(means), batch.mean())


def test_equal_shares_have_the_weight_one() -> None:
    assert [share(np.arange(8), rank, 4)[1] for rank in range(4)] == [1.0] * 4


def test_a_rank_without_a_share_has_an_example_of_no_weight() -> None:
    part, weight = share(np.array([5, 6]), 2, 3)

    assert (part.tolist(), weight) == ([5], 0.0)


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    orders = [epoch_order(30, seed, epoch).tolist() for seed in (0, 1) for epoch in (0, 1)]

    assert all(sorted(one) == [*range(30)] for one in orders)
    assert len({tuple(one) for one in orders}) == 4
    assert epoch_order(30, 1, 1).tolist() == orders[3]


@pytest.mark.parametrize(
    ("now", "total"),
    [
        ([32, 32, 32], 64),  # a rank's batch is as large as before
        ([21, 21, 21], 64),  # the code divides 64 by the number of ranks
        ([22, 21, 21], 64),
        ([64], 64),
        ([48, 48, 48], 144),  # the code asks for another one
        ([16], 16),
    ],
)
def test_the_batch_of_all_ranks_stays_unless_the_code_changes_it(now, total) -> None:
    assert total_batch([32, 32], 64, now) == total


def test_a_batch_that_was_divided_is_known_by_its_total() -> None:
    assert total_batch([21, 21, 21], 64, [16, 16, 16, 16]) == 64
    assert total_batch([32, 32, 32], 64, [32]) == 64
