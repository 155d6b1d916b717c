"""How an exchanger divides gradients into buckets."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workbench.core.performance.exchange_model import Codec, Link
from workbench.engine.exchange.exchanger import BUCKET_BYTES, Exchanger


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
