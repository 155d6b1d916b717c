"""Ask a region of EC2 what it lends, at what price, and how much of it the account may have."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from workbench.cloud import inventory
from workbench.cloud.calls import Calls
from workbench.core.fleet import Needs, Offer
from workbench.core.offers import ranked
from workbench.core.refusal import Kind
from workbench.errors import CloudRefused

PRICE_SECONDS = 300.0  # spot prices move no faster
MOST_TYPES = 100  # more are asked for by asking for all
_LINUX = "Linux/UNIX"


class Catalogue:
    """What one region lends; types are kept for good, prices for a while.

    Args:
        clock: Gives epoch seconds.
    """

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        self._calls = calls
        self._clock = clock
        self._lock = threading.Lock()
        self._kinds: dict[str, inventory.Kind] = {}
        self._prices: dict[str, tuple[float, dict[str, float]]] = {}

    def offers(
        self, needs: Needs, places: Iterable[str], history_seconds: float
    ) -> tuple[Offer, ...]:
        """Return all types that fit, one for each zone of ``places`` that has them.

        Past prices of thousands of types would take minutes: only the best ones have them.
        """
        kinds = {kind.type: kind for kind in self._fitting(needs)}
        offered = self._calls.rows(
            "ec2",
            "describe_instance_type_offerings",
            "InstanceTypeOfferings",
            LocationType="availability-zone",
            Filters=[{"Name": "location", "Values": sorted(places)}],
        )
        zones = [(row["InstanceType"], row["Location"]) for row in offered]
        quotas, now = self.quotas(), self._clock()
        since = now - history_seconds
        if len(kinds) <= MOST_TYPES:
            prices = self._history(list(kinds), since)
            return inventory.offers(kinds.values(), zones, prices, quotas, since)
        prices = self._history(list(kinds), now)
        found = inventory.offers(kinds.values(), zones, prices, quotas, now)
        if not history_seconds:
            return found
        prices = {**prices, **self._history(_best(found, needs), since)}
        return inventory.offers(kinds.values(), zones, prices, quotas, since)

    def kind(self, type_: str) -> inventory.Kind:
        """Return what a type has.

        Raises:
            CloudRefused: There is no such type, or the place does not answer.
        """
        with self._lock:
            known = self._kinds.get(type_)
        if known is None:
            [known] = self._described(InstanceTypes=[type_])
        return known

    def price(self, type_: str, zone: str) -> float:
        """Return $/h of one now, as it was at most some minutes ago; 0 when nobody says."""
        with self._lock:
            asked, known = self._prices.get(type_, (0.0, {}))
        now = self._clock()
        if now - asked > PRICE_SECONDS:
            found = self._history([type_], now)
            known = {place: points[-1][1] for (_, place), points in found.items()}
            with self._lock:
                self._prices[type_] = (now, known)
        return known.get(zone, 0.0)

    def quotas(self) -> dict[str, int]:
        """Return what is left of each spot quota, in vCPUs, by its code; without those untold."""
        try:
            rows = list(
                self._calls.rows(
                    "service-quotas", "list_service_quotas", "Quotas", ServiceCode="ec2"
                )
            )
        except CloudRefused as refused:
            if refused.kind != Kind.PERMISSION:
                raise
            return {}
        used = self._used()
        return {
            row["QuotaCode"]: max(0, int(row["Value"]) - used.get(row["QuotaCode"], 0))
            for row in rows
            if row["QuotaCode"] in inventory.QUOTAS.values()
        }

    def _used(self) -> dict[str, int]:
        """Return the vCPUs of all spot machines of the account, by the quota that counts them."""
        used: dict[str, int] = {}
        for row in self._calls.rows(
            "ec2",
            "describe_instances",
            "Reservations.Instances",
            Filters=[
                {"Name": "instance-lifecycle", "Values": ["spot"]},
                {"Name": "instance-state-name", "Values": ["pending", "running"]},
            ],
        ):
            code = inventory.quota_code(row["InstanceType"])
            used[code] = used.get(code, 0) + self.kind(row["InstanceType"]).vcpus
        return used

    def _fitting(self, needs: Needs) -> list[inventory.Kind]:
        filters = [
            {"Name": "supported-usage-class", "Values": ["spot"]},
            {"Name": "bare-metal", "Values": ["false"]},
            {"Name": "processor-info.supported-architecture", "Values": ["x86_64"]},
        ]
        if needs.types:
            filters.append({"Name": "instance-type", "Values": list(needs.types)})
        return [kind for kind in self._described(Filters=filters) if inventory.fits(needs, kind)]

    def _described(self, **request: Any) -> list[inventory.Kind]:
        rows = self._calls.rows("ec2", "describe_instance_types", "InstanceTypes", **request)
        kinds = [inventory.kind(row) for row in rows]
        with self._lock:
            self._kinds.update({kind.type: kind for kind in kinds})
        return kinds

    def _history(self, types: list[str], since: float) -> Mapping[tuple[str, str], Any]:
        if not types:
            return {}
        rows = self._calls.rows(
            "ec2",
            "describe_spot_price_history",
            "SpotPriceHistory",
            ProductDescriptions=[_LINUX],
            StartTime=datetime.fromtimestamp(since, UTC),
            **({"InstanceTypes": types} if len(types) <= MOST_TYPES else {}),
        )
        return inventory.prices(rows)


def _best(offers: Iterable[Offer], needs: Needs) -> list[str]:
    """Return the types that come first for one node or for several."""
    both = zip(ranked(offers, needs, 1), ranked(offers, needs, 2), strict=True)
    return list(dict.fromkeys(offer.type for pair in both for offer in pair))[:MOST_TYPES]
