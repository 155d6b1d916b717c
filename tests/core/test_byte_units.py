"""Bytes and rates as text."""

from __future__ import annotations

import pytest

from workbench.core.units import gbits, size_text


@pytest.mark.parametrize(
    ("nbytes", "said"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (24_400, "24.4 kB"),
        (999_950, "1 MB"),
        (16_384_000, "16.4 MB"),
        (123_456_789, "123 MB"),
        (1_340e6, "1.34 GB"),
    ],
)
def test_bytes_are_reported_as_a_person_reads_them(nbytes, said) -> None:
    assert size_text(nbytes) == said


@pytest.mark.parametrize(
    ("rate", "said"), [(1.44, "1.44"), (0.00837, "0.00837"), (999.4, "999"), (2880, "2,880")]
)
def test_gbits_are_reported_without_powers_of_ten(rate, said) -> None:
    assert gbits(rate * 1e9 / 8) == said
