"""What the benchmark of paired iterations computes from the times that a script has written."""

from __future__ import annotations

import pytest

from benchmarks.paired_iteration import ratios_of


def test_a_block_without_is_compared_with_those_before_and_after_it() -> None:
    drifting = [[9.0, 1.1], [9.0, 1.3], [9.0, 1.5]]

    ratios = ratios_of(drifting, [[7.0, 1.0], [7.0, 1.4]], counted=1)

    assert ratios == pytest.approx([1.2, 1.0])
