"""A rehearsal whose calls fail where a test wants it, or at random, as those of a cloud do."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from workbench.cloud.ec2.api import build_error
from workbench.cloud.rehearsal.provider import Rehearsal, Weather
from workbench.cloud.rehearsal.state import RehearsalState
from workbench.core.fleet.model import Machine

NO_ANSWER = "NoAnswer"


@dataclass(frozen=True)
class Fault:
    """An injected fault in one call.

    Args:
        call: Name of the method of ``NodeProvider``.
        number: Which call of that name fails, from 1; 0 for each.
        code: An error code of EC2; ``NoAnswer`` for an answer that was lost.
        late: Whether the call takes effect before it fails.
    """

    call: str
    number: int
    code: str
    late: bool = False


@dataclass(frozen=True)
class Trouble(Weather):
    """Weather with faults.

    Args:
        trouble: Share of the calls that fail at random, besides ``faults``.
    """

    trouble: float = 0.0
    faults: tuple[Fault, ...] = ()


class TroubledRehearsal(Rehearsal):
    """A rehearsal in such weather."""

    weather: Trouble

    def __init__(self, *given: Any, weather: Trouble | None = None, **more: Any) -> None:
        super().__init__(*given, weather=weather or Trouble(), **more)
        self._calls = Counter[str]()

    @contextlib.contextmanager
    def calling(self, name: str) -> Iterator[RehearsalState]:
        """Inject a fault into a call if one is due."""
        fault = self._fault(name)
        with super().calling(name) as state:
            if fault and not fault.late:
                raise build_error(fault.code, f"{name} failed, as rehearsed")
            yield state
        if fault:
            raise build_error(fault.code, f"{name} took effect without an answer, as rehearsed")

    def truth(self) -> tuple[Machine, ...]:
        """Return all machines in their true state, listed or not; never fails."""
        with self._keeping() as state:
            self._advance(state)
            return tuple(self._machine(machine) for machine in state.machines.values())

    def _fault(self, name: str) -> Fault | None:
        self._calls[name] += 1
        number = self._calls[name]
        for fault in self.weather.faults:
            if fault.call == name and fault.number in (0, number):
                return fault
        chance = random.Random(f"{self._seed} {name} {number}")
        if chance.random() >= self.weather.trouble:
            return None
        return chance.choice(TROUBLES.get(name, TROUBLES[""]))(name)


def _late(name: str) -> Fault:
    return Fault(name, 0, NO_ANSWER, late=True)


def _early(code: str) -> Callable[[str], Fault]:
    return lambda name: Fault(name, 0, code)


# EC2's occasional answers to a valid purchase.
REFUSALS = (
    "InsufficientInstanceCapacity",
    "UnfulfillableCapacity",
    "InvalidFleetConfiguration",
    "InvalidPlacementGroup.InUse",
    "InvalidPlacementGroup.Unknown",
    "InvalidLaunchTemplateName.NotFoundException",
    "InvalidGroup.NotFound",
    "MaxSpotInstanceCountExceeded",
    "VcpuLimitExceeded",
    "SpotMaxPriceTooLow",
    "RequestExpired",
)
_ALWAYS = (
    _late,
    _early(NO_ANSWER),
    _early("RequestLimitExceeded"),
    _early("InternalError"),
    _early("ExpiredToken"),
)
TROUBLES: dict[str, tuple[Callable[[str], Fault], ...]] = {
    "": _ALWAYS,
    "buy": (*_ALWAYS, *map(_early, REFUSALS)),
}
