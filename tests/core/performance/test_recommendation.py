"""One type and number of nodes of a plan is recommended."""

from __future__ import annotations

from dataclasses import replace

from workbench.core.performance.exchange_model import Codec
from workbench.core.performance.frontier import TypeCurve
from workbench.view.tables.plan import FurtherNodes, recommend

SLOW = TypeCurve(
    type="slow.1",
    zone="a",
    price=0.2,
    sizes=(1, 2, 4, 8),
    seconds=(400.0, 210.0, 120.0, 110.0),
    dollars=(0.02, 0.022, 0.027, 0.05),
    codecs=(Codec.NONE, Codec.NONE, Codec.FP16, Codec.FP16),
    stops=4,
    fastest=8,
    gains=True,
)


def test_the_number_at_which_more_stop_paying_is_recommended() -> None:
    found = recommend([SLOW])

    assert found is not None
    assert (found.nodes, found.seconds, found.dollars) == (4, 120.0, 0.027)
    assert (found.codec, found.further) == (Codec.FP16, FurtherNodes.UNPAID)


def test_half_the_time_is_worth_twice_the_price() -> None:
    dear = replace(SLOW, type="dear", dollars=tuple(3 * d for d in SLOW.dollars))
    quick = replace(dear, type="quick", seconds=tuple(s / 4 for s in SLOW.seconds))

    types = [recommend(curves).type for curves in ([dear, SLOW], [dear, SLOW, quick])]

    assert types == ["slow.1", "quick"]


def test_where_more_nodes_bring_nothing_it_is_one() -> None:
    found = recommend([replace(SLOW, gains=False)])

    assert (found.nodes, found.further) == (1, FurtherNodes.USELESS)


def test_where_the_last_number_still_pays_that_is_reported() -> None:
    assert recommend([replace(SLOW, stops=8)]).further is FurtherNodes.UNKNOWN
    assert recommend([]) is None
