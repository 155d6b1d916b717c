"""Our exchange in replicas of DistributedDataParallel averages as gloo does."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is an extra that the tests do without")

pytestmark = [pytest.mark.mpi, pytest.mark.torch]

REPLICAS = Path(__file__).parent / "programs" / "torch_replicas.py"


@pytest.fixture(params=[(), ("nodes",)], ids=["one node", "two nodes"])
def on_two(on_shared_ranks, request) -> list[dict[str, Any]]:
    return on_shared_ranks(REPLICAS, 2, *request.param)


def test_weights_are_those_of_gloo_within_the_order_of_summation(on_two) -> None:
    for mine in on_two:
        narrow = {n: far for n, far in mine["far"].items() if n.endswith("float16")}
        exact = {n: far for n, far in mine["far"].items() if n not in narrow}
        assert max(exact.values()) < 2e-5, exact
        assert max(narrow.values()) < 0.05, narrow


def test_ranks_stay_alike_and_infinite_gradients_are_seen_by_all(on_two) -> None:
    for mine in on_two:
        assert [what for what, right in mine["right"].items() if not right] == []


def test_codecs_come_near_the_weights_of_gloo(on_two) -> None:
    for mine in on_two:
        assert max(mine["coded"][name] for name in ("fp16", "bf16", "int8")) < 0.05
        assert max(mine["coded"][name] for name in ("topk", "powersgd")) < 0.7


def test_double_buffering_applies_the_mean_of_the_step_before(on_two) -> None:
    assert all(mine["delayed"] < 1e-5 for mine in on_two)


def test_what_our_exchange_does_not_carry_is_said_once(on_two) -> None:
    said = on_two[0]["said"]

    assert said.count("has no effect on a DistributedDataParallel") == 2
    assert "it has a communication hook of its own" in said
    assert "it has sparse gradients" in said
    assert "compressed by int8" in said
    assert ("on 2 nodes" in said) == ("buckets that leave during the backward pass" in said)
    assert "double buffering" in said
    assert "has no effect" not in on_two[1]["said"]


DIGITS = Path(__file__).parent / "programs" / "torch_digits.py"
SEEDS = "71 72 73"
POINTS = 1.0  # the mean of three seeds differs by 0.4 points between equal ways
CODECS = ("gloo", "none", "fp16", "bf16", "int8", "topk", "powersgd")


@pytest.mark.weekly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("size", [2, 4])
def test_every_codec_ends_as_accurate_as_gloo(on_ranks, size) -> None:
    found: dict[str, list[float]] = {}
    for codec in CODECS:  # each world has some minutes
        found |= on_ranks(DIGITS, size, SEEDS, codec)[0]
    print(size, found)
    means = {codec: fmean(values) for codec, values in found.items()}

    assert means["gloo"] > 95
    assert min(means.values()) > means["gloo"] - POINTS, means
