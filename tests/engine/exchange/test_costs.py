"""The summary of a codec uses measurements, and its costs are those of the exchange's own code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from workbench.core.performance.exchange_model import CODINGS, Algorithm, Codec, Link, seconds
from workbench.engine.exchange import reducer
from workbench.engine.exchange.costs import coded_bytes, coding_seconds, sample

PROGRAMS = Path(__file__).parent / "programs"
CODECS = [codec for codec in Codec if codec is not Codec.NONE]


@pytest.mark.mpi
def test_whether_a_codec_pays_is_said_by_what_was_measured(on_ranks) -> None:
    mine, other = on_ranks(PROGRAMS / "codec_pays.py", 2)

    for codec in ("int8", "topk", "powersgd"):
        text, coding = mine[f"link {codec}"]
        assert f"{codec} pays: 1.2 MB of them took" in text
        assert float(re.findall(r"in place of ([\d.]+) ms", text)[0]) >= 200
        assert coding > 0
    assert "int8 does not pay on this link: 1.2 MB of them took" in mine["codec"][0]
    assert "leave --compress out" in mine["codec"][0]
    assert "No gradient is large enough for powersgd." in mine["small"][0]
    assert not any(text for text, _ in other.values())


@pytest.mark.parametrize("algorithm", [Algorithm.RING, Algorithm.MPI])
def test_where_the_link_decides_is_tried_on_one_that_was_measured_too_slow(algorithm) -> None:
    """One of 172 MB/s was measured as 118: then 1 MB was the largest, and 10 MB chosen wrongly."""
    link = Link(50e-6, 118e6)

    largest = max(reducer._TRIAL_BYTES)

    assert largest >= 4_000_000
    assert seconds(algorithm, largest, 8, 1, link) < reducer._TRIAL_SECONDS


@pytest.mark.parametrize("codec", CODECS)
def test_codings_have_the_bytes_that_a_codec_sends(codec) -> None:
    coding = next(one for one in CODINGS if one.codec is codec)
    # Half of ResNet-50; its 3 x 3 convolutions are what PowerSGD makes least of.
    shapes = [(512, 2048), (2048, 512), (128, 1152), (256, 2304), (1000, 2048), (256, 1024)]
    nbytes = 4 * sum(rows * columns for rows, columns in shapes)

    sent = coded_bytes(codec, 4, 8, shapes)

    times = 2 * 7 / 8 if coding.sums else 7
    assert sent / times / nbytes == pytest.approx(coding.ratio, rel=0.35, abs=1e-4)


@pytest.mark.parametrize("codec", CODECS)
def test_coding_takes_time_on_any_number_of_ranks(codec) -> None:
    assert all(coding_seconds(codec, 4, ranks) > 0 for ranks in (2, 3, 8))


def test_a_trial_takes_some_gradients_or_a_part_of_one() -> None:
    assert sample([(1000, 1000), (2000, 2000), (9, 9)]) == [(1000, 1000), (9, 9)]
    assert sample([(4000, 4096)]) == [(512, 4096)]
    assert sample([(9_000_000,)]) == [(2_097_152,)]
