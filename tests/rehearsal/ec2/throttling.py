"""Take a token for each call of EC2, as AWS does: a bucket for each action in each region.

Sizes and refills are those of "Request throttling for the Amazon EC2 API" (EC2 developer guide).
"""

from __future__ import annotations

from tests.rehearsal.ec2.answers import Refusal
from tests.rehearsal.ec2.market import MARKET

# Tokens that the bucket holds, and those that come back each second.
NON_MUTATING, MUTATING = (100.0, 20.0), (50.0, 5.0)


def refuse(action: str, region: str) -> Refusal | None:
    """Take a token; refuse where there is none."""
    reads = action.startswith(("Describe", "Get"))
    size, refill = MARKET.rates.get(action, NON_MUTATING if reads else MUTATING)
    left, since = MARKET.buckets.get((region, action), (size, MARKET.now))
    left = min(size, left + (MARKET.now - since) * refill)
    taken = left >= 1
    MARKET.buckets[region, action] = (left - 1 if taken else left, MARKET.now)
    return None if taken else ("RequestLimitExceeded", "Request limit exceeded.")
