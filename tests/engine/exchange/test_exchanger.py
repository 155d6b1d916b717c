"""How an exchanger divides gradients into buckets, and averages those of one message."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from workbench.core.performance.exchange_model import Codec, Link
from workbench.engine.exchange.bucket_layout import HEADER
from workbench.engine.exchange.exchanger import BUCKET_BYTES, Exchanger
from workbench.errors import GradientError


def bucket_bytes(codec: Codec, nbytes: float = 100e6) -> int:
    transport: Any = SimpleNamespace(size=8)
    reducer: Any = SimpleNamespace(transport=transport, link=Link(50e-6, 172e6))
    return Exchanger(reducer, codec, overlaps=True)._fused_bytes(nbytes)


def test_what_becomes_fewer_bytes_leaves_in_larger_buckets() -> None:
    sizes = [bucket_bytes(one) for one in (Codec.NONE, Codec.FP16, Codec.INT8, Codec.POWERSGD)]

    assert sizes == sorted({*sizes})
    assert BUCKET_BYTES[0] <= sizes[0]
    assert sizes[-1] == 25e6 < BUCKET_BYTES[1]


def test_a_small_network_keeps_buckets_that_leave_before_the_last_gradient() -> None:
    plain, coded = (bucket_bytes(codec, 8e6) for codec in (Codec.NONE, Codec.POWERSGD))

    assert plain < coded == 2e6


@pytest.mark.mpi
def test_no_communicator_is_created_while_buckets_are_exchanged(on_shared_ranks) -> None:
    for mine in on_shared_ranks(Path(__file__).parent / "programs" / "created_first.py", 2):
        assert (mine["overlaps"], mine["met"]) == (True, True)
        assert "Dup" in mine["before"]
        assert mine["during"] == []


def was_finite(exchanger: Exchanger) -> bool:
    """Return whether all sums of the last exchange were finite."""
    assert exchanger.plan is not None
    return bool(np.isfinite(exchanger.plan.closing.buffer).all())


class TwoRanks:
    """A reducer of two ranks with the same gradients.

    Args:
        seconds: Of a message over their link.
    """

    def __init__(self, seconds: float = 1e-3) -> None:
        self.seconds = seconds
        comm = SimpleNamespace(allgather=lambda value: [value, value])
        self.transport: Any = SimpleNamespace(size=2, rank=0, comm=comm, rest=lambda: None)
        self.nodes, self.sums, self.messages = 2, None, list[int]()

    def predict_seconds(self, nbytes: float) -> float:
        return self.seconds

    def total(self, array: Any) -> Any:
        self.messages.append(len(array))
        with np.errstate(over="ignore"):
            array *= 2
        return np.array(0.5, "f4")


def test_small_gradients_of_any_kind_are_one_message_with_the_header() -> None:
    reducer: Any = TwoRanks()
    exchanger = Exchanger(reducer)
    given = [np.arange(6, dtype="f4"), np.ones((3, 2), "f2"), np.ones((4, 4), "f4")[:, ::2]]
    names, shapes = ["/a", "/b", "/c"], [one.shape for one in given]

    for _ in range(3):
        wanted = [one.copy() for one in given]
        news = dict(exchanger.mean(names, given, shapes))

    assert reducer.messages == 3 * [HEADER + 6 + 6 + 8]
    assert [*news] == [2]  # not contiguous, so it is replaced
    for number, one in enumerate(wanted):
        got = news.get(number, given[number])
        assert got.dtype == one.dtype
        assert np.array_equal(got, one)
    assert was_finite(exchanger)


def test_a_number_that_is_not_finite_is_seen_in_that_step_alone() -> None:
    reducer: Any = TwoRanks()
    exchanger = Exchanger(reducer)
    given, finite = np.ones(5, "f4"), []

    for value in (1.0, np.inf, 1.0):
        given[3] = value
        exchanger.mean(["/a"], [given], [given.shape], forgiving=True)
        finite.append(was_finite(exchanger))

    assert finite == [True, False, True]


def test_a_sum_too_large_for_its_type_is_an_error_though_all_its_numbers_are_finite() -> None:
    reducer: Any = TwoRanks()
    exchanger, given = Exchanger(reducer), np.ones(5, "f4")
    exchanger.mean(["/a"], [given], [given.shape])

    given[3] = 3e38
    with pytest.raises(GradientError, match="too large"):
        exchanger.mean(["/a"], [given], [given.shape])

    assert given[3] == np.float32(3e38)


def test_another_rank_that_changed_is_met_by_one_more_exchange(monkeypatch) -> None:
    reducer: Any = TwoRanks()
    exchanger, given = Exchanger(reducer), np.ones(5, "f4")
    exchanger.mean(["/a"], [given], [given.shape])
    messages, summed = len(reducer.messages), reducer.total

    def changed(array: Any) -> Any:
        monkeypatch.undo()
        array[:] = [math.inf, *array[1:]]
        return summed(array)

    monkeypatch.setattr(reducer, "total", changed)
    exchanger.mean(["/a"], [given], [given.shape])

    assert len(reducer.messages) == messages + 2
    assert was_finite(exchanger)
    assert (given == 1).all()


def test_even_where_a_header_seems_to_cost_nothing_100_kb_go_with_it() -> None:
    reducer: Any = TwoRanks(seconds=0.0)
    gradient = np.ones(25_000, "f4")

    assert not Exchanger(reducer).mean(["/a"], [gradient], [gradient.shape])

    assert reducer.messages == [HEADER + 25_000]
    assert (gradient == 1).all()


@pytest.mark.mpi
@pytest.mark.contract
@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.either_mpi), 4])
def test_gradients_of_one_message_are_averaged_or_refused(on_shared_ranks, size: int) -> None:
    for mine in on_shared_ranks(Path(__file__).parent / "programs" / "single_messages.py", size):
        for one in ("mpi", "ring"):
            assert mine[f"{one}: kind"] == "SingleMessage"
            assert mine[f"{one}: right"] == [True] * 3
            assert mine[f"{one}: kept"]
            assert mine[f"{one}: from any memory"]
            error = str(mine[f"{one}: not finite"])
            assert error.startswith(f"The gradient of /b on rank {size - 1} is not finite")
            assert mine[f"{one}: unchanged"]
            assert mine[f"{one}: forgiven"]
            assert f"(4, 30) on rank {size - 1}" in str(mine[f"{one}: another shape"])
            assert mine[f"{one}: afterwards"] == "no error"
