"""The results of measuring a cluster: links, memory exchange, disks and devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import msgspec

from workbench.core.messages import Amount, Count, decode
from workbench.core.performance.bandwidth import BandwidthSurvey

# What a rank writes to this stream is stored as a measurement, and not as output.
RESULT_STREAM = "measurement"


@dataclass(frozen=True)
class Rate:
    """A data rate on one node.

    Args:
        what: Its name for the user: ``disk write``, ``host to device``.
        bandwidth: Bytes per second.
        latency: Seconds; 0 if it has no meaning.
    """

    node: str
    what: str
    bandwidth: Amount
    latency: Amount = 0.0


@dataclass(frozen=True)
class Measurement:
    """The results of one measurement.

    Args:
        ranks: Of the whole world.
        seconds: Duration of the measurement.
        rates: Within nodes.
        left_out: What was not measured and why, a sentence each.
    """

    survey: BandwidthSurvey
    ranks: Count
    seconds: Amount
    rates: tuple[Rate, ...] = ()
    left_out: tuple[str, ...] = ()


def measurement_json(found: Measurement) -> str:
    """Return the stored form of a measurement."""
    return msgspec.json.encode(found).decode()


def measurement_of(text: str) -> Measurement:
    """Return the measurement that ``measurement_json`` encoded.

    Raises:
        MachineError: The text is invalid.
    """
    return decode(Measurement, text)


def is_enough(seconds: Sequence[float], spread: float = 0.05) -> bool:
    """Return whether the faster half of at least three times agrees within ``spread``."""
    if len(seconds) < 3:
        return False
    ordered = sorted(seconds)
    return ordered[len(ordered) // 2] <= (1 + spread) * ordered[0]


def typical(seconds: Sequence[float]) -> float:
    """Return the median."""
    return median(seconds)


def sizes_up_to(most: int, least: int = 1_000, times: int = 4) -> tuple[int, ...]:
    """Return sizes to measure: each ``times`` the one before, and ``most``."""
    found = []
    size = least
    while size < most:
        found.append(size)
        size *= times
    return (*found, most)
