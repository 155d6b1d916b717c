"""Keep count of what was bought: what is still to come, what is repeated, what is tried next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from workbench.core.fleet import Machine, Purchase
from workbench.core.ladder import Rung, purchase, rung_of
from workbench.core.refusal import Step, step

# For as long after a launch a place may not list what it has lent.
LAG_SECONDS = 60.0
# A token is not repeated when the call may be long past: what it bought would be listed.
REPEAT_SECONDS = 600.0
BACK_OFF_SECONDS = (2.0, 60.0)
# When no rung had machines: the first pause, and the longest.
PAUSE_SECONDS = (60.0, 900.0)
MOST_RUNGS = 16


class Outcome(StrEnum):
    """What came of a purchase."""

    WRITTEN = "written"
    BOUGHT = "bought"
    REFUSED = "refused"
    LOST = "lost"


@dataclass(frozen=True)
class Order:
    """A purchase, and what came of it.

    Args:
        climb: Number of the ascent of the ladder that it belongs to, from 1.
        at: Epoch seconds at which it was written down, and then of the last answer.
        outcome: ``written`` for as long as no answer is known; ``lost`` when nothing came of it.
        tries: Calls that were made with this token.
        kind: Why it was refused; one of ``core.refusal.Kind``.
        message: Why it was refused, in a sentence.
    """

    purchase: Purchase
    climb: int
    at: float
    outcome: Outcome = Outcome.WRITTEN
    tries: int = 1
    kind: str = ""
    message: str = ""

    @property
    def is_open(self) -> bool:
        """Whether nobody knows yet what comes of it: the same call may have to be repeated."""
        throttled = self.outcome is Outcome.REFUSED and step(self.kind) is Step.BACK_OFF
        return self.outcome is Outcome.WRITTEN or throttled

    @property
    def may_come(self) -> bool:
        """Whether machines may come of it: also of a call without answer before the refused one."""
        refused_again = self.outcome is Outcome.REFUSED and self.tries > 1
        return self.outcome is Outcome.BOUGHT or (refused_again and not self.is_open)

    @property
    def repeats_at(self) -> float:
        """Epoch seconds from which the call is repeated, while it is open."""
        first, longest = BACK_OFF_SECONDS
        return self.at + min(first * 2.0 ** min(self.tries - 1, 16), longest)


@dataclass(frozen=True)
class Pause:
    """Nothing is to be tried until then; 0 until somebody has acted."""

    until: float
    why: str


def settled(
    orders: Iterable[Order], machines: Sequence[Machine], seen: float, calling: Collection[str]
) -> list[Order]:
    """Return the orders that the place's list tells more of, as they are to be written now.

    What is listed was bought, whether or not the answer came. What was bought, and is not listed
    although it must be, is lost: the next rung is tried.

    Args:
        seen: Epoch seconds at which the list was asked for.
        calling: Tokens whose call is under way.
    """
    news = []
    listed = Counter(machine.token for machine in machines)
    for order in orders:
        there = listed[order.purchase.token]
        if order.is_open and there:
            news.append(replace(order, outcome=Outcome.BOUGHT, kind="", message=""))
        elif (
            order.outcome is Outcome.BOUGHT
            and not there
            # Later nothing can be said: the place forgets what has ended.
            and LAG_SECONDS <= seen - order.at < 10 * LAG_SECONDS
            and order.purchase.token not in calling
        ):
            said = "it was granted, but no machine came"
            news.append(replace(order, outcome=Outcome.LOST, message=said))
    return news


def promised(orders: Iterable[Order], machines: Sequence[Machine], seen: float) -> int:
    """Return how many machines may have been bought that the place does not list yet."""
    listed = Counter(machine.token for machine in machines)
    return sum(
        max(0, order.purchase.count - listed[order.purchase.token])
        for order in orders
        if order.may_come and seen < order.at + LAG_SECONDS
    )


def given_up(order: Order) -> Order:
    """Return an open order of which nothing came, and whose call is not repeated."""
    return replace(order, outcome=Outcome.LOST, kind="", message="it was given up")


def next_order(
    orders: Sequence[Order],
    rungs: Sequence[Rung],
    *,
    cluster: str,
    founded: float,
    asked: float,
    now: float,
) -> Order | Pause:
    """Return what to try next, or until when to wait; no order may be open.

    Args:
        orders: All, oldest first.
        rungs: What would do now, in the order in which to try it.
        founded: Epoch seconds; tells the cluster from an earlier one of the same name.
        asked: Epoch seconds of the wish; it is not held back by what came of an older one.
    """
    last = orders[-1] if orders else None
    climb = last.climb if last else 0
    recent = [order for order in orders if order.climb == climb]
    over = last is None or last.at < asked or any(o.outcome is Outcome.BOUGHT for o in recent)
    if last and not over:
        if last.outcome is Outcome.REFUSED and step(last.kind) is Step.STOP:
            return Pause(0.0, last.message)
        tried = {_apart_from_price(rung_of(order.purchase)) for order in recent}
        rest = [rung for rung in rungs if _apart_from_price(rung) not in tried]
        over = not rest or len(recent) >= MOST_RUNGS
        rungs = rungs if over else rest
        until = last.at + _pause(orders, asked)
        if over and now < until:
            return Pause(until, f"Nobody lends {rungs[0]} or any other way; it is tried again.")
    number, climb = (0, climb + 1) if over else (len(recent), climb)
    generation = f"{founded:.6f}/{climb}"
    return Order(purchase(cluster, generation, number, rungs[0]), climb, now)


def _apart_from_price(rung: Rung) -> Rung:
    return replace(rung, most_price=0.0)


def _pause(orders: Sequence[Order], asked: float) -> float:
    """Return for how long to wait after the last ascent; longer after each one in vain."""
    failed: set[int] = set()
    for order in reversed(orders):
        if order.outcome is Outcome.BOUGHT or order.at < asked:
            break
        failed.add(order.climb)
    first, longest = PAUSE_SECONDS
    return min(first * 2.0 ** min(len(failed) - 1, 8), longest)
