"""A training is slowed down in a known way, and the verdict on its reports names the cause."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.place import Place
from benchmarks.shaped import ShapedHosts
from tests.rehearsal.hosts import Hosts, why_not
from workbench.analysis.step_breakdown import StepBreakdown, read_breakdown
from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import Batch, Sample
from workbench.core.world.world import RankFact
from workbench.store import Store

pytestmark = pytest.mark.mpi

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def reported(tmp_path) -> Callable[..., StepBreakdown]:
    """Have ranks tell what they found, and return what a person sees of it."""

    def tell(found: list[dict[str, float]]) -> StepBreakdown:
        wish = RunWish("260101-000000-aaaa", "fit", RunKind.CELL, "pass")
        with Store(tmp_path / "store.sqlite3") as store:
            store.wish_run(wish)
            store.put_run_fact(wish.id, generation=1, ranks=len(found))
            ranks = [RankFact(1, n, f"node{n + 1}", 1, n) for n in range(len(found))]
            store.put_ranks(wish.cluster, ranks)
            for rank, values in enumerate(found):
                samples = tuple(
                    Sample(name, 40, 0.0, value) for name, value in values.items() if "/" in name
                )
                store.reports.add_batches([Batch(wish.id, rank, 1, samples)])
            store.put_run_fact(wish.id, state=RunState.FINISHED)
            return read_breakdown(store, store.run(wish.id))

    return tell


@pytest.fixture(scope="module")
def shaped() -> Iterator[ShapedHosts]:
    """Two hosts whose link is slow."""
    if reason := why_not():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    with Place() as place, Hosts(2) as hosts:
        for host in hosts:
            host.shape(100)
        yield ShapedHosts(hosts, place, 100)


def test_a_rank_that_is_slow_is_named(on_shared_ranks, reported) -> None:
    seen = reported(on_shared_ranks(PROGRAMS / "slowed_training.py", 2, "rank"))

    assert seen.slowest == 1
    assert seen.says[0].startswith("Straggler: rank 1 computes for ")
    assert "the other rank. See what else runs on this machine. With all" in seen.says[0]


def test_data_that_comes_late_is_named(on_shared_ranks, reported) -> None:
    seen = reported(on_shared_ranks(PROGRAMS / "slowed_training.py", 2, "data"))

    assert seen.slowest == -1
    assert seen.says[0].startswith("Data-bound: ")


def test_a_training_that_nothing_slows_down_is_reported_so(on_shared_ranks, reported) -> None:
    seen = reported(on_shared_ranks(PROGRAMS / "slowed_training.py", 2, "nothing"))

    assert seen.says[0].startswith("Compute-bound: ")


@pytest.mark.parametrize("how", ["by_chainermn", "by_hand"])
def test_ranks_that_have_a_part_of_a_model_each_get_advice_on_their_messages(
    on_shared_ranks, reported, how
) -> None:
    found = on_shared_ranks(PROGRAMS / "divided_model.py", 2, how)
    seen = reported(found)

    assert seen.parts == ("compute", "communication", "point-to-point", "data", "other")
    assert all(one["exchange/gradients"] > 0 for one in found)
    assert "gradients" not in " ".join(seen.says)
    assert "times as fast" not in seen.says[0]
    assert all(one["step/compute"] > one["step/other"] for one in found)
    if how == "by_hand":  # each waits while the other computes
        assert seen.says[0].startswith("Message-bound: ")


@pytest.mark.root
def test_a_slow_link_is_named_with_its_bytes_and_bandwidth(shaped, reported) -> None:
    found = shaped.mpi(PROGRAMS / "training_between_hosts.py", "/tmp", "0", nodes=2)

    seen = reported(found)

    assert seen.says[0].startswith("Network-bound: ")
    said = re.search(r"gradients \(1 MB, at ([0-9.]+) Gbit/s", seen.says[0])
    assert said
    assert 0.06 < float(said[1]) < 0.12  # of 0.1, and the burst on top
    moving = [parts["moving"] for parts in seen.steps.values()]
    # One megabyte each way at 95.6 Mbit/s of payload takes 84 ms, 73 where a burst goes first.
    assert all(0.068 < seconds < 0.14 for seconds in moving)
    assert seen.parts == ("compute", "waiting", "moving", "data", "other")
