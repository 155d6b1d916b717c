"""A run's page says which snapshot is the newest, and where it is."""

from __future__ import annotations

import pytest

from workbench.core.fleet.model import FleetWish
from workbench.core.recovery.snapshots import SnapshotFile, SnapshotManifest
from workbench.view.tables.listing import describe_parts, describe_snapshots

ELSEWHERE = FleetWish(provider="hosts")
IN_S3 = FleetWish(provider="ec2", snapshots="s3://bucket/prefix")


def saved(iteration: int) -> SnapshotManifest:
    files = (SnapshotFile("trainer.npz", 1_500_000, 7),)
    return SnapshotManifest("a-run", 1, 1, 1, iteration, 0.5, 2, final=False, files=files)


@pytest.mark.parametrize(
    ("reported", "here", "fleet", "text"),
    [
        (-1, [], FleetWish(), ""),
        (1200, [saved(1200)], FleetWish(), "iteration 1,200, 1.5 MB on this machine"),
        (9, [], FleetWish(), "iteration 9"),
        (9, [], ELSEWHERE, "iteration 9 on its nodes alone"),
        (9, [saved(5), saved(9)], ELSEWHERE, "iteration 9, 1.5 MB; copied to this machine"),
        (9, [saved(5)], ELSEWHERE, "iteration 9; copied to this machine: 5"),
        (9, [], IN_S3, "iteration 9 on its nodes; copies in s3://bucket/prefix"),
    ],
)
def test_the_newest_snapshot_is_said_with_its_place(reported, here, fleet, text) -> None:
    assert describe_snapshots(reported, here, fleet) == text


@pytest.mark.parametrize(
    ("savers", "text"),
    [
        ((), ""),
        (((0,),), ""),
        (((0, 1), (1, 0)), "in 2 parts, so a loss of two nodes at once takes it in 1 of 1 cases"),
        (
            ((0, 1), (1, 2), (2, 3), (3, 0)),
            "in 4 parts, so a loss of two nodes at once takes it in 4 of 6 cases",
        ),
        (((0, 2), (1, 3)), "in 2 parts, so a loss of two nodes at once takes it in 2 of 6 cases"),
        (((0, 1, 2),), "in 1 part, so a loss of two nodes at once takes it in no case"),
    ],
)
def test_what_a_loss_of_two_nodes_costs_is_said_of_a_divided_state(savers, text) -> None:
    assert describe_parts(savers) == text
