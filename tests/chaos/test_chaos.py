"""Real ranks and a real supervisor through seeded faults; `make chaos` plays many more."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.chaos.examples import visits, wrong
from tests.chaos.play import Play, cluster
from tests.chaos.tally import Record, Tally, table, total
from workbench.store import Store

FAULTS = 30
# They wait for nothing, so that several can follow each other at once.
BRIEF = (
    "kill_rank", "kill_mpiexec", "kill_supervisor", "resize", "torn_snapshot", "kill_fork_server",
)  # fmt: skip
AT_ONCE = 6


@pytest.mark.mpi
def test_no_run_and_no_example_is_lost_by_several_faults_at_once(tmp_path: Path, seed: int) -> None:
    with Store() as store:
        play = Play(store, tmp_path, Random(seed), print, together=(AT_ONCE,))
        with cluster(store):
            play.go(FAULTS, BRIEF)

    assert play.tally.is_well, str(play.tally)
    assert play.tally.faults == FAULTS
    assert play.segments() == []


@pytest.mark.weekly
@pytest.mark.mpi
@pytest.mark.timeout(900)
def test_no_run_and_no_example_is_lost_by_faults(tmp_path: Path, seed: int) -> None:
    with Store() as store:
        play = Play(store, tmp_path, Random(seed), print)
        with cluster(store):
            play.go(FAULTS)

    assert play.tally.is_well, str(play.tally)
    assert play.segments() == []


def test_iterations_of_an_earlier_world_count_until_a_later_one_repeats_them(tmp_path) -> None:
    (tmp_path / "1-0.txt").write_text("0 0:0\n1 0:1\n2 0:2\n3 0:3")  # the last line is cut off
    (tmp_path / "2-0.txt").write_text("2 0:2\n3 0:3 1:0\n")

    found = visits(tmp_path)

    assert found == {0: Counter(range(4)), 1: Counter([0])}
    assert wrong(found, 4) == (0, 0)
    assert wrong(found, 5) == (0, 1)
    (tmp_path / "2-1.txt").write_text("2 0:1\n")
    assert wrong(visits(tmp_path), 4) == (1, 0)


def test_a_long_play_is_continued_after_its_last_whole_chapter(tmp_path: Path) -> None:
    record = Record(tmp_path / "machine-1.jsonl")
    record.write(0, Tally(faults=20, runs=1, seconds={"kill_rank": [1.0]}, played={"kill_rank": 1}))
    record.write(1, Tally(faults=20, runs=2, lost=["why"], seconds={"kill_rank": [3.0]}))
    with record.path.open("a") as file:
        file.write('\n{"chapter": 2, "faul')

    found = record.chapters()

    assert [*found] == [0, 1]
    both = total(found.values())
    assert (both.faults, both.runs, both.lost) == (40, 3, ["why"])
    assert both.seconds == {"kill_rank": [1.0, 3.0]}
    assert not both.is_well
    assert found[0].is_well


@pytest.mark.parametrize(
    "wrong",
    [
        {"stuck": ["one"]}, {"noticed": 1}, {"planned": 1}, {"repeated": 1}, {"left_out": 1},
        {"drawn_twice": 1}, {"left": ["a process"]},
    ],
    ids=str,
)  # fmt: skip
def test_nothing_but_steps_after_losses_may_be_lost(wrong) -> None:
    assert Tally(faults=1, redone=7).is_well
    assert not Tally(faults=1, **wrong).is_well


def test_the_table_has_each_stage_and_all_of_them() -> None:
    here = Tally(faults=4, runs=1, redone=3, seconds={"kill_rank": [1.0, 2.5]})
    there = Tally(faults=2, runs=1, lost=["why"], seconds={"silent_node": [4.25]})

    rows = table({"machine": here, "nodes": there}).splitlines()

    assert rows[2] == "| machine | 4 | 1 | 0 | 0 | 0 | 0 | 3 | 0 | 2.5 s |"
    assert rows[4] == "| all | 6 | 2 | 1 | 0 | 0 | 0 | 3 | 0 | 4.2 s |"
