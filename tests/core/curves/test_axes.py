"""An axis shows all values and a margin, within the possible values."""

from __future__ import annotations

import pytest

from workbench.view.pictures.curve_picture import axis_of


@pytest.mark.parametrize(
    ("quantity", "low", "high", "wanted"),
    [
        ("accuracy", 0.5, 1.0, (0.47, 1.0)),
        ("accuracy", 1.0, 1.0, (0.9, 1.0)),
        ("accuracy", 0.0, 0.0, (0.0, 1.0)),
        ("accuracy", 0.01, 0.5, (0.0, 0.5294)),
        ("top5_accuracy", 50.0, 100.0, (47.0, 100.0)),
        ("loss", 0.01, 2.01, (0.0, 2.13)),
        ("loss", 0.2, 0.2, (0.18, 0.22)),
        ("loss", -1.0, 1.0, (-1.12, 1.12)),
    ],
)
def test_an_axis_has_a_margin_where_values_may_be(quantity, low, high, wanted):
    assert axis_of(quantity, low, high) == pytest.approx(wanted)
