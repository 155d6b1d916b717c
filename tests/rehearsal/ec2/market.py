"""The state of the rehearsal's EC2 beside moto's own: pools, prices, quotas, faults, lags."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field
from typing import Any

HOUR = 3600.0
CHANGE = 6 * HOUR  # between two changes of a price
LIST_PRICE = 0.05  # $ a vCPU and hour, roughly; GPUs cost as much as eight
QUOTAS = {
    "L-34B43A08": 640, "L-3819A6DF": 256, "L-7212CCBC": 128, "L-C4BD4855": 192,
    "L-85EED4F7": 96, "L-B5D1601B": 64, "L-6B0D517C": 64, "L-88CF9481": 64, "L-E3A00192": 128,
    "L-1216C47A": 320, "L-DB2E81BA": 128, "L-417A185B": 96,  # on demand
}  # fmt: skip


@dataclass
class Fault:
    """What befalls calls of one action.

    Args:
        times: As many calls; -1 for all.
        after: Whether the call is carried out nevertheless, and only its answer is lost.
    """

    action: str
    code: str
    message: str = ""
    times: int = 1
    after: bool = False


@dataclass
class Market:
    """The state; times are epoch seconds of a clock that a test may put forward.

    Args:
        pools: Type and zone to the machines that are free; what is not named has no end.
        close: The same for machines in a placement group.
        fixed: Type and zone to points of price, valid from then on.
        refusals: What the next calls of CreateFleet say in their 200, instead of machines.
        lag: Seconds for which a new machine is not listed.
        boot: Seconds until it runs.
        ending: Seconds until it is gone.
        imaging: Seconds until an image of one is available.
        ahead: Seconds by which the clock is before this machine's.
        clock: Epoch seconds of a stopped clock; 0 for a running one.
        images: Images to when they were begun.
        picture: Seconds after CreateImage's return until the disk's state is taken.
        taken: Images for which it has been.
        expired: Access keys that have expired.
        keys: Access keys that are known; none for all.
        rates: Actions to their bucket of calls and its refill per second, where not AWS's own.
        buckets: Region and action to the tokens left, and when.
        credits: Burstable machines to their mode.
        late: Seconds until a new group, key pair, template, placement group or profile is known.
        counted: Seconds for which a terminated machine still counts against quota and pool.
        held: Terminated machines that still count: their type, zone and end.
        made: Region, kind and name of such things to when they were made.
        free_plan: Whether the account is on AWS's free plan.
        customer_key: Whether volumes are encrypted with a key that spot may not use.
    """

    pools: dict[tuple[str, str], int] = field(default_factory=dict)
    close: dict[tuple[str, str], int] = field(default_factory=dict)
    fixed: dict[tuple[str, str], list[tuple[float, float]]] = field(default_factory=dict)
    quotas: dict[str, int] = field(default_factory=lambda: dict(QUOTAS))
    faults: list[Fault] = field(default_factory=list)
    refusals: list[list[tuple[str, str]]] = field(default_factory=list)
    tokens: dict[str, tuple[str, Any]] = field(default_factory=dict)
    fleets: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    launched: dict[str, float] = field(default_factory=dict)
    ends: dict[str, float] = field(default_factory=dict)
    notices: dict[str, float] = field(default_factory=dict)
    rebalances: dict[str, float] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    lag: float = 0.0
    boot: float = 0.0
    ending: float = 0.0
    imaging: float = 0.0
    images: dict[str, float] = field(default_factory=dict)
    picture: float = 0.0
    taken: set[str] = field(default_factory=set)
    expired: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    rates: dict[str, tuple[float, float]] = field(default_factory=dict)
    buckets: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    credits: dict[str, str] = field(default_factory=dict)
    late: float = 0.0
    counted: float = 0.0
    held: dict[str, tuple[str, str, float]] = field(default_factory=dict)
    made: dict[tuple[str, str, str], float] = field(default_factory=dict)
    free_plan: bool = False
    customer_key: bool = False
    ahead: float = 0.0
    clock: float = 0.0
    region_of: dict[str, str] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    @property
    def now(self) -> float:
        """The time there."""
        return self.clock or time.time() + self.ahead

    def is_known(self, id_: str) -> bool:
        """Whether calls that name a machine find it."""
        return id_ in self.launched and self.is_listed(id_)

    def price(self, type_: str, zone: str, vcpus: int, gpus: int, at: float) -> float:
        """Return $/h: what a test fixed, or a wave about a third of the list price."""
        standing = [dollars for since, dollars in self.fixed.get((type_, zone), ()) if since <= at]
        if standing:
            return standing[-1]
        full = list_price(vcpus, gpus)
        phase = sum(map(ord, type_ + zone))
        return round(full * (0.33 + 0.08 * math.sin(at // CHANGE + phase)), 6)

    def history(
        self, type_: str, zone: str, vcpus: int, gpus: int, since: float
    ) -> list[tuple[float, float]]:
        """Return the changes of price since then, newest first, and the price at that time."""
        changes = range(int(since // CHANGE), int(self.now // CHANGE) + 1)
        times = {number * CHANGE for number in changes}
        times |= {at for at, _ in self.fixed.get((type_, zone), ()) if at >= since}
        return [
            (at, self.price(type_, zone, vcpus, gpus, at)) for at in sorted(times, reverse=True)
        ]

    def free(self, type_: str, zone: str, *, close: bool) -> int:
        """Return how many machines are free."""
        most = self.pools.get((type_, zone), 10**6)
        return min(most, self.close.get((type_, zone), 10**6)) if close else most

    def take(self, type_: str, zone: str, count: int) -> None:
        """Take machines from the pool, or return them with a negative count."""
        for pool in (self.pools, self.close):
            if (type_, zone) in pool:
                pool[type_, zone] -= count

    def fault(self, action: str, *, after: bool) -> Fault | None:
        """Return what befalls this call."""
        for fault in self.faults:
            if fault.action == action and fault.after is after and fault.times:
                fault.times -= 1
                return fault
        return None

    def is_listed(self, id_: str) -> bool:
        """Whether DescribeInstances knows of a machine yet."""
        return self.now - self.launched.get(id_, 0.0) >= self.lag


def list_price(vcpus: int, gpus: int) -> float:
    """Return the on-demand price in $/h of a type."""
    return LIST_PRICE * (vcpus + 8 * gpus)


MARKET = Market()
