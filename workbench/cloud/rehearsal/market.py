"""The market of the rehearsal: invented types with prices that change by the hour."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from workbench.core.fleet.model import Needs, Offer
from workbench.core.fleet.offers import fits

HOUR = 3600.0
# Prices are linear in between, so that they have a history to look at.
PERIOD = 6 * HOUR
ZONES = ("here-1a", "here-1b", "here-1c")
# Shares of the list price. The range is narrow, so that the same type is the cheapest on every day:
# tutorials and tests do not change with the calendar.
_LOWEST, _HIGHEST = 0.28, 0.4


@dataclass(frozen=True)
class SimulatedType:
    """One type of machine; the fields are those of ``Offer``.

    Args:
        price: On-demand $/h.
    """

    type: str
    price: float
    vcpus: int
    memory: float
    network: float
    burst: float
    gpus: int = 0
    gpu: str = ""
    gpu_memory: float = 0.0

    @property
    def quota_name(self) -> str:
        """The quota that it counts against."""
        return f"All {self.type.partition('.')[0]} Spot Instance Requests"

    @property
    def slots(self) -> int:
        """The ranks that it runs: one per GPU, else one per core of two vCPUs."""
        return self.gpus or max(1, self.vcpus // 2)


KINDS = (
    SimulatedType("cpu.2", 0.085, 2, 4.0, 0.75, 10.0),
    SimulatedType("cpu.4", 0.17, 4, 8.0, 1.25, 10.0),
    SimulatedType("cpu.16", 0.68, 16, 32.0, 5.0, 10.0),
    SimulatedType("gpu.1", 0.75, 8, 30.0, 2.5, 10.0, 1, "Rehearsal 8", 8.0),
    SimulatedType("gpu.4", 3.0, 32, 120.0, 10.0, 25.0, 4, "Rehearsal 8", 8.0),
    SimulatedType("gpu.8", 7.2, 64, 488.0, 25.0, 25.0, 8, "Rehearsal 16", 16.0),
)


def kind_of(type_: str) -> SimulatedType | None:
    """Return the type with this name; None if there is none."""
    return next((kind for kind in KINDS if kind.type == type_), None)


def price_at(seed: int, kind: SimulatedType, zone: str, time: float) -> float:
    """Return the $/h of one machine at ``time``."""
    period, part = divmod(time / PERIOD, 1.0)
    before, after = (_share(seed, kind, zone, int(period) + step) for step in (0, 1))
    return round(kind.price * (before + (after - before) * part), 4)


def offers(
    seed: int,
    needs: Needs,
    now: float,
    history_seconds: float = 0.0,
    quota: Callable[[SimulatedType], int] | None = None,
) -> tuple[Offer, ...]:
    """Return the types that fit, one offer for each zone, cheapest first.

    Args:
        quota: Returns how many more vCPUs of a type may be started.
    """
    found = [
        _offer(seed, kind, zone, now, history_seconds, None if quota is None else quota(kind))
        for kind in KINDS
        for zone in ZONES
    ]
    fitting = [offer for offer in found if fits(needs, offer)]
    return tuple(sorted(fitting, key=lambda offer: (offer.price, offer.type, offer.zone)))


def _offer(
    seed: int, kind: SimulatedType, zone: str, now: float, history_seconds: float, quota: int | None
) -> Offer:
    return Offer(
        type=kind.type,
        zone=zone,
        price=price_at(seed, kind, zone, now),
        vcpus=kind.vcpus,
        memory=kind.memory,
        gpus=kind.gpus,
        gpu=kind.gpu,
        gpu_memory=kind.gpu_memory,
        network=kind.network,
        burst=kind.burst,
        history=tuple(_history(seed, kind, zone, now, history_seconds)),
        quota=quota,
        quota_name=kind.quota_name,
    )


def _history(
    seed: int, kind: SimulatedType, zone: str, now: float, seconds: float
) -> Iterator[tuple[float, float]]:
    for hour in range(int((now - seconds) // HOUR) + 1, int(now // HOUR) + 1):
        yield hour * HOUR, price_at(seed, kind, zone, hour * HOUR)


@lru_cache(maxsize=1 << 16)
def _share(seed: int, kind: SimulatedType, zone: str, period: int) -> float:
    # Computed from the seed: the same for every process, and nothing has to be stored.
    return random.Random(f"{seed} {kind.type} {zone} {period}").uniform(_LOWEST, _HIGHEST)
