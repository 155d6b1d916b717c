"""Real ranks and a real supervisor through seeded faults; `make chaos` plays many more."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.chaos.examples import visits, wrong
from tests.chaos.play import Play, cluster
from workbench.store import Store

FAULTS = 30
# They wait for nothing, so that several can follow each other at once.
BRIEF = ("kill_rank", "kill_mpiexec", "kill_supervisor", "resize", "torn_snapshot")
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
