"""What to keep of the batch on other ranks is chosen by name."""

from __future__ import annotations

import pytest

from workbench.core.fleet.model import FleetWish
from workbench.core.run.batch_option import early_environment, grows


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
