"""What PyTorch exchanges by itself is divided into waiting and moving, and no rank waits for it."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
from mpi4py import MPI

from tests.waiting import until
from workbench.frameworks.torch.replica_times import _Comparison

PROGRAM = Path(__file__).parent / "programs" / "replica_passes.py"

pytestmark = [pytest.mark.mpi, pytest.mark.either_mpi]


def test_the_least_exposed_pass_of_all_ranks_is_what_moving_takes(on_shared_ranks) -> None:
    late, last = on_shared_ranks(PROGRAM, 2, "alike")

    assert len(late["samples"]) > 3
    assert {(waited, moved) for waited, moved in late["samples"]} == {(0.06, 0.02)}
    assert {(waited, moved) for waited, moved in last["samples"]} == {(0.0, 0.02)}


def test_bytes_pieces_and_overlap_are_counted_for_each_step(on_shared_ranks) -> None:
    found = on_shared_ranks(PROGRAM, 2, "alike")[0]

    nbytes, pieces, whole = found["totals"]
    assert found["rate"] == 1
    # Two passes a step; PyTorch says how many there were, so nothing is known of the first step.
    assert found["seconds"] == pytest.approx([0.04] + 99 * [0.08])
    assert (nbytes, pieces, whole) == pytest.approx((199e6, 597, 199 * 0.05))
    details = found["details"]
    assert (details["overlaps"], details["early"]) == (1.0, 0.25)
    assert details["backward"] == pytest.approx(0.08)
    assert details["cores"] >= 1


def test_a_rank_that_alone_takes_steps_waits_for_no_other(on_ranks) -> None:
    found = on_ranks(PROGRAM, 2, "alone")

    assert [len(one["seconds"]) for one in found] == [100, 0]
    assert found[0]["samples"] == []


def test_what_a_reduction_writes_to_stays_until_it_ends_also_without_its_run() -> None:
    left = _Comparison(MPI.COMM_SELF)
    left.begin(8, 0.1, 8)
    written = weakref.ref(left._all)

    del left
    gc.collect()

    assert written() is not None
    until(lambda: _Comparison(MPI.COMM_SELF) and written() is None)  # those of the next runs
