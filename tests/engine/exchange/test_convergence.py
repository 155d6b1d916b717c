"""Compressed training becomes as accurate as exact training, with six seeds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

import pytest

from tests.engine.conftest import OnRanks

pytestmark = [pytest.mark.mpi, pytest.mark.weekly, pytest.mark.timeout(600)]

DIGITS = Path(__file__).parent / "programs" / "digits.py"
NOISY = DIGITS.with_name("noisy_digits.py")
POINTS = 0.5
SEEDS = "61 62 63 64 65 66"  # of three, the mean of one and the same way differs by 0.3 points
CODECS = ("none fp16 bf16", "int8 topk powersgd")  # each world has a minute
NOISY_CODECS, NOISY_SEEDS = ("none", "fp16", "int8", "topk", "powersgd"), ("61", "62", "63")
NOISY_POINTS, NOISY_EARLY = 3.0, 12.0


def accuracies(
    on_ranks: OnRanks, network: str, seeds: str, worlds: tuple[str, ...]
) -> dict[str, float]:
    """Train with every codec; return the mean accuracy of each in percent."""
    found: dict[str, list[float]] = {}
    for codecs in worlds:
        found |= on_ranks(DIGITS, 2, network, seeds, codecs)[0]
    print(network, found)
    return {codec: fmean(values) for codec, values in found.items()}


def check(means: Mapping[str, float], points: float) -> None:
    assert len(means) == 6
    assert means["none"] > 95
    assert min(means.values()) > means["none"] - points, means


@pytest.mark.parametrize("network", ["mlp", "cnn"])
def test_every_codec_ends_as_accurate_as_none(on_ranks, network) -> None:
    check(accuracies(on_ranks, network, SEEDS, CODECS), POINTS)


def test_no_codec_slows_the_epochs_of_eight_ranks_on_a_harder_network(on_ranks) -> None:
    def curve(codec: str) -> list[float]:
        curves = [on_ranks(NOISY, 8, seed, "15", codec)[0]["accuracy"] for seed in NOISY_SEEDS]
        return [fmean(epoch) for epoch in zip(*curves, strict=True)]

    found = {codec: curve(codec) for codec in NOISY_CODECS}

    print(found)
    plain = found["none"]
    for codec in NOISY_CODECS[1:]:
        assert found[codec][-1] > plain[-1] - NOISY_POINTS, codec
        # With PowerSGD's factors in turns it was 40 % in place of 62 to 68 % after six epochs.
        assert found[codec][5] > plain[5] - NOISY_EARLY, codec
