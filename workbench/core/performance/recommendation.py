"""Recommend one node type and number of nodes from a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from workbench.core.performance.exchange_model import Codec
from workbench.core.performance.frontier import TypeCurve


class Further(StrEnum):
    """The effect of more nodes than the recommended number."""

    UNPAID = "more stop paying"
    USELESS = "more bring no gain"
    UNKNOWN = "more may pay, and `--max-nodes` plans for more"


@dataclass(frozen=True)
class Recommendation:
    """A recommended configuration for training.

    Args:
        seconds: Per epoch, like ``dollars``.
    """

    type: str
    zone: str
    nodes: int
    codec: Codec
    seconds: float
    dollars: float
    further: Further


def recommended(curves: Sequence[TypeCurve]) -> Recommendation | None:
    """Return the best of the sizes at which each type stops paying.

    It has the least product of time and money: half the time is worth twice the price.
    """
    found = [_at_its_stop(curve) for curve in curves]
    return min(found, key=lambda one: (one.seconds * one.dollars, one.seconds), default=None)


def _at_its_stop(curve: TypeCurve) -> Recommendation:
    place = curve.sizes.index(curve.stops) if curve.gains else 0
    if place == len(curve.sizes) - 1:
        further = Further.UNKNOWN
    else:
        further = Further.UNPAID if curve.gains else Further.USELESS
    return Recommendation(
        curve.type,
        curve.zone,
        curve.sizes[place],
        curve.codecs[place],
        curve.seconds[place],
        curve.dollars[place],
        further,
    )
