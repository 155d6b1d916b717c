"""Which nodes save which parts of a divided state, and what losses of nodes cost."""

from __future__ import annotations

import random

import pytest

from workbench.core.recovery.parts import COPIES, PartReports, StatePart, divide, fatal_losses
from workbench.core.recovery.snapshots import SnapshotManifest, for_training, superfluous, whole
from workbench.core.run.rank_protocol import Batch, EventReport, SnapshotSaved, TrainingBegun

NODES = 4


def manifest(iteration: int, part: int, parts: int = NODES, **options) -> SnapshotManifest:
    fields = {"run": "a-run", "attempt": 1, "generation": 1, "training": 1, "epoch": 0.0}
    fields |= {"ranks": parts, "final": False, **options}
    return SnapshotManifest(iteration=iteration, part=part, parts=parts, **fields)


def test_each_shard_is_saved_by_its_node_and_the_next() -> None:
    held = [{f"w@{node}": 8, f"v@{node}": 4} for node in range(3)]

    assert divide(held) == (
        StatePart(("v@0", "w@0"), (0, 1)),
        StatePart(("v@1", "w@1"), (1, 2)),
        StatePart(("v@2", "w@2"), (2, 0)),
    )


def test_replicas_save_what_they_have_anyway() -> None:
    held = [{f"w@{node % 2}": 8} for node in range(6)]

    assert divide(held) == (StatePart(("w@0",), (0, 2, 4)), StatePart(("w@1",), (1, 3, 5)))


def test_the_copy_is_where_the_least_has_to_be_sent() -> None:
    held = [{"w@0": 8, "shared": 100}, {"w@1": 8}, {"w@2": 8, "shared": 100}]

    assert divide(held)[0] == StatePart(("shared", "w@0"), (0, 2))


def test_one_node_has_all_and_no_neighbour() -> None:
    assert divide([{"b": 1, "a": 2}]) == (StatePart(("a", "b"), (0,)),)
    assert divide([{}, {}]) == ()


@pytest.mark.parametrize("seed", range(20))
def test_any_node_may_be_lost_however_the_state_is_divided(seed) -> None:
    chance = random.Random(seed)
    nodes = chance.randint(2, 7)
    held = [
        {f"p{at}": chance.randint(1, 9) for at in range(12) if chance.random() < 0.3}
        for _ in range(nodes)
    ]
    parts = divide(held)

    assert sorted(one for part in parts for one in part.pieces) == sorted(set().union(*held))
    assert all(len({*part.nodes}) >= COPIES for part in parts)
    assert fatal_losses([one.nodes for one in parts], nodes, 1)[0] == 0


def test_two_neighbours_take_a_part_with_them_and_others_do_not() -> None:
    ring = [one.nodes for one in divide([{f"w@{node}": 1} for node in range(NODES)])]

    assert fatal_losses(ring, NODES, 1) == (0, 4)
    assert fatal_losses(ring, NODES, 2) == (4, 6)
    assert fatal_losses(ring, NODES, 3) == (4, 4)
    assert fatal_losses([(0, 1, 2)], 3, 2) == (0, 3)


def test_a_snapshot_is_whole_with_all_of_its_parts() -> None:
    older = [manifest(5, part) for part in range(NODES)]
    newer = [manifest(9, part) for part in range(NODES - 1)]

    assert whole([*newer, *older]) == older
    assert for_training([*newer, *older], 1) == older
    assert whole([*newer, manifest(9, NODES - 1)]) == [*newer, manifest(9, NODES - 1)]


def test_no_part_is_removed_before_a_snapshot_is_complete() -> None:
    mine = [manifest(iteration, part) for iteration in (5, 9, 12, 15) for part in (0, 3)]

    assert superfluous(mine) == []
    assert superfluous(mine, manifest(5, 0).age) == mine[2:4]
    assert superfluous(mine, manifest(15, 0).age) == mine[:4]


@pytest.mark.parametrize("seed", range(30))
def test_after_any_history_the_last_complete_snapshot_survives_the_loss_of_a_node(seed) -> None:
    """Nodes write at their own pace, and some cannot; a loss comes at any moment."""
    chance = random.Random(seed)
    savers = [one.nodes for one in divide([{f"w@{node}": 1} for node in range(NODES)])]
    disks: list[list[SnapshotManifest]] = [[] for _ in range(NODES)]
    written: list[tuple | None] = [None] * NODES
    complete, iteration = None, 0
    for _ in range(40):
        # A boundary: all ranks learn what each node has written before.
        complete = written[0] if len({*written}) == 1 else complete
        iteration += chance.randint(1, 4)
        broken = {node for node in range(NODES) if chance.random() < 0.1}
        steps = [(node, part) for part, nodes in enumerate(savers) for node in nodes]
        steps = [one for one in steps if one[0] not in broken]
        chance.shuffle(steps)
        for node, part in steps:
            disks[node].append(manifest(iteration, part))
            for old in superfluous(disks[node], complete):
                disks[node].remove(old)
            if complete is not None:
                for lost in range(NODES):
                    left = [one for at in range(NODES) if at != lost for one in disks[at]]
                    newest = for_training(left, 1)
                    assert newest
                    assert newest[0].age >= complete
        for node in {*range(NODES)} - broken:
            written[node] = manifest(iteration, 0).age
    assert max(map(len, disks)) <= 2 * (len(savers) + 1)


def batch(rank: int, sequence: int, iteration: int, reporters=(0, 1, 2)) -> Batch:
    saved = SnapshotSaved(iteration, nbytes=10 + rank, reporters=reporters)
    reports = (EventReport(TrainingBegun(), 1.0), EventReport(saved, 2.0))
    return Batch("260101-000000-part", rank, sequence, events=reports)


def counted(reports: PartReports, *batches: Batch) -> list[tuple[int, int, int]]:
    """Return rank, iteration and bytes of the snapshots that count."""
    found = [(one.rank, reports.count(one).event(SnapshotSaved)) for one in batches]
    return [(rank, one.iteration, one.nbytes) for rank, one in found if one]


def test_a_snapshot_counts_once_all_of_its_parts_are_reported() -> None:
    reports = PartReports()

    assert not counted(reports, batch(2, 1, 5), batch(0, 1, 5), batch(0, 1, 5))
    assert counted(reports, batch(1, 1, 5)) == [(1, 5, 33)]


def test_a_report_that_comes_again_counts_as_it_did() -> None:
    reports = PartReports()
    first = batch(0, 1, 5), batch(2, 1, 5), batch(1, 1, 5)

    assert counted(reports, *first, *first) == [(1, 5, 33)] * 2
    assert counted(reports, batch(0, 9, 5), batch(1, 9, 5)) == []  # of the next training


def test_the_reports_of_two_snapshots_may_cross() -> None:
    reports = PartReports()

    assert not counted(reports, batch(0, 1, 5), batch(0, 2, 9), batch(1, 1, 5), batch(1, 2, 9))
    assert counted(reports, batch(2, 1, 5), batch(2, 2, 9)) == [(2, 5, 33), (2, 9, 33)]


def test_what_is_not_divided_is_reported_by_rank_0() -> None:
    reports = PartReports()
    whole = batch(0, 1, 5, reporters=())

    assert reports.count(whole) is whole
    assert counted(reports, batch(1, 1, 5, reporters=()), whole) == [(0, 5, 10)]
