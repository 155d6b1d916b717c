"""The state of purchases: pending nodes, retries, and the next fallback."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from workbench.core.fleet.cloud_errors import ErrorKind, Reaction, step
from workbench.core.fleet.fallbacks import Candidate, candidate_of, purchase
from workbench.core.fleet.model import Machine, Purchase

# For so long after a launch, the provider may not list the machine.
LAG_SECONDS = 60.0
# A token is not repeated when the call may be long past: its machines would be listed.
REPEAT_SECONDS = 600.0
BACK_OFF_SECONDS = (2.0, 60.0)
# The first and the longest pause after no candidate had machines.
PAUSE_SECONDS = (60.0, 900.0)
MOST_CANDIDATES = 16


class PurchaseOutcome(StrEnum):
    """The outcome of a purchase."""

    WRITTEN = "written"
    BOUGHT = "bought"
    REFUSED = "refused"
    LOST = "lost"


@dataclass(frozen=True)
class PurchaseRecord:
    """A purchase and its outcome.

    Args:
        pass_number: Number of the pass through the candidates that it belongs to, from 1.
        at: Epoch seconds at which it was recorded, and then of the last answer.
        outcome: ``written`` while no answer is known; ``lost`` if it gave no machine.
        tries: Calls that were made with this token.
        kind: The kind of its error; one of ``core.fleet.cloud_errors.ErrorKind``.
        message: The error as a sentence.
    """

    purchase: Purchase
    pass_number: int
    at: float
    outcome: PurchaseOutcome = PurchaseOutcome.WRITTEN
    tries: int = 1
    kind: str = ""
    message: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the outcome is unknown: the same call may have to be repeated."""
        throttled = self.outcome is PurchaseOutcome.REFUSED and step(self.kind) is Reaction.BACK_OFF
        return self.outcome is PurchaseOutcome.WRITTEN or throttled

    @property
    def may_come(self) -> bool:
        """Whether machines may come; also of a call without an answer before the refused one."""
        refused_again = self.outcome is PurchaseOutcome.REFUSED and self.tries > 1
        return self.outcome is PurchaseOutcome.BOUGHT or (refused_again and not self.is_open)

    @property
    def repeats_at(self) -> float:
        """Epoch seconds from which the call is repeated while it is open."""
        first, longest = BACK_OFF_SECONDS
        return self.at + min(first * 2.0 ** min(self.tries - 1, 16), longest)


@dataclass(frozen=True)
class Pause:
    """Try nothing until then; 0 until the user has acted."""

    until: float
    why: str


def settle_purchases(
    purchases: Iterable[PurchaseRecord],
    machines: Sequence[Machine],
    seen: float,
    calling: Collection[str],
) -> list[PurchaseRecord]:
    """Return the purchases whose outcome the provider's list shows, as they are to be recorded.

    Listed machines were bought, whether or not the answer came. A purchase whose machines are not
    listed although they must be is lost: the next candidate is tried.

    Args:
        seen: Epoch seconds of the query for the list.
        calling: Tokens whose call is running.
    """
    news = []
    listed = Counter(machine.token for machine in machines)
    for record in purchases:
        there = listed[record.purchase.token]
        if record.is_open and there:
            news.append(replace(record, outcome=PurchaseOutcome.BOUGHT, kind="", message=""))
        elif (
            record.outcome is PurchaseOutcome.BOUGHT
            and not there
            # Later the outcome is unknown: the provider drops ended machines from its list.
            and LAG_SECONDS <= seen - record.at < 10 * LAG_SECONDS
            and record.purchase.token not in calling
        ):
            message = "it was granted, but no machine came"
            news.append(replace(record, outcome=PurchaseOutcome.LOST, message=message))
    return news


def count_promised(
    purchases: Iterable[PurchaseRecord], machines: Sequence[Machine], seen: float
) -> int:
    """Return how many bought machines the provider may not list yet."""
    listed = Counter(machine.token for machine in machines)
    return sum(
        max(0, record.purchase.count - listed[record.purchase.token])
        for record in purchases
        if record.may_come and seen < record.at + LAG_SECONDS
    )


def give_up(record: PurchaseRecord) -> PurchaseRecord:
    """Return an open purchase as lost: no machine came, and its call is not repeated."""
    return replace(record, outcome=PurchaseOutcome.LOST, kind="", message="it was given up")


def next_purchase(
    purchases: Sequence[PurchaseRecord],
    candidates: Sequence[Candidate],
    *,
    cluster: str,
    founded: float,
    asked: float,
    now: float,
) -> PurchaseRecord | Pause:
    """Return what to try next, or until when to wait; no purchase may be open.

    Args:
        purchases: All purchases, oldest first.
        candidates: The candidates that fit now, in the order in which to try them.
        founded: Epoch seconds; an earlier cluster of the same name differs.
        asked: Epoch seconds of the wish; outcomes before it do not delay it.
    """
    last = purchases[-1] if purchases else None
    pass_number = last.pass_number if last else 0
    recent = [record for record in purchases if record.pass_number == pass_number]
    over = (
        last is None or last.at < asked or any(o.outcome is PurchaseOutcome.BOUGHT for o in recent)
    )
    if last and not over:
        follows = (
            step(last.kind) if last.outcome is PurchaseOutcome.REFUSED else Reaction.NEXT_CANDIDATE
        )
        if follows is Reaction.STOP:
            return Pause(0.0, last.message)
        rest = [
            candidate
            for candidate in candidates
            if not any(_is_vain(candidate, record) for record in recent)
        ]
        over = follows is Reaction.PAUSE or not rest or len(recent) >= MOST_CANDIDATES
        candidates = candidates if over else rest
        until = last.at + _pause(purchases, asked)
        if over and now < until:
            return Pause(until, _why_paused(recent, candidates[0]))
    number, pass_number = (0, pass_number + 1) if over else (len(recent), pass_number)
    generation = f"{founded:.6f}/{pass_number}"
    return PurchaseRecord(purchase(cluster, generation, number, candidates[0]), pass_number, now)


def _is_vain(candidate: Candidate, before: PurchaseRecord) -> bool:
    """Return whether the outcome of a purchase means that a candidate fails as well."""
    tried = candidate_of(before.purchase)
    if before.outcome is PurchaseOutcome.REFUSED and before.kind == ErrorKind.QUOTA:
        return {*candidate.types} <= {*tried.types} and candidate.min_nodes >= tried.min_nodes
    return _apart_from_price(candidate) == _apart_from_price(tried)


def _why_paused(recent: Sequence[PurchaseRecord], first: Candidate) -> str:
    """Return why nothing is tried now; a reason with a remedy before the lack of machines."""
    failures = [
        o for o in recent if o.outcome is PurchaseOutcome.REFUSED and o.kind != ErrorKind.CAPACITY
    ]
    if failures:
        return failures[-1].message
    return f"No zone has {first} now, and every fallback failed; it is tried again."


def _apart_from_price(candidate: Candidate) -> Candidate:
    return replace(candidate, max_price=0.0)


def _pause(purchases: Sequence[PurchaseRecord], asked: float) -> float:
    """Return how long to wait after the last pass; longer after each failed one.

    While the user renews credentials, the pause is short.
    """
    if purchases[-1].kind == ErrorKind.CREDENTIALS:
        return PAUSE_SECONDS[0]
    failed: set[int] = set()
    for record in reversed(purchases):
        if record.outcome is PurchaseOutcome.BOUGHT or record.at < asked:
            break
        failed.add(record.pass_number)
    first, longest = PAUSE_SECONDS
    return min(first * 2.0 ** min(len(failed) - 1, 8), longest)
