"""The offers of an EC2 region: types, prices, and the quotas of the account."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from workbench.cloud.ec2 import inventory
from workbench.cloud.ec2.api import Ec2Api
from workbench.cloud.ec2.inventory import QUOTAS, InstanceType, quota_code
from workbench.cloud.ec2.list_prices import DayFile, ListPrices
from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.fleet.model import Needs, Offer
from workbench.core.fleet.offers import rank_offers
from workbench.errors import CloudError

_FIELDS = [field.name for field in fields(InstanceType)]

_NAMES = {"spot": "types", "on-demand": "types-on-demand"}

PRICE_SECONDS = 300.0  # spot prices change no faster
CLOCK_SECONDS = 60.0  # this computer's clock may be ahead, and the future has no prices
MOST_TYPES = 100  # for more, the prices of all types are requested
_LINUX = "Linux/UNIX"


class Ec2Offers:
    """The offers of one region; types are cached for a day, prices for minutes.

    Args:
        clock: Returns epoch seconds.
        folder: A cache of types and on-demand prices for all processes; None to keep them in this
            one.
        on_demand: Returns whether nodes are bought on demand rather than on the spot market.
    """

    def __init__(
        self,
        calls: Ec2Api,
        clock: Callable[[], float],
        folder: Path | None = None,
        *,
        on_demand: Callable[[], bool],
    ) -> None:
        self._folder = folder
        self._on_demand = on_demand
        self._list = ListPrices(calls, clock, folder)
        self._calls = calls
        self._clock = clock
        self._lock = threading.Lock()
        self._kinds: dict[str, inventory.InstanceType] = {}
        self._prices: dict[str, tuple[float, dict[str, float]]] = {}

    def offers(
        self, needs: Needs, places: Iterable[str], history_seconds: float
    ) -> tuple[Offer, ...]:
        """Return all types that fit, one offer for each of the zones that has them.

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
        if self._on_demand():
            listed = self._list.prices({type_ for type_, _ in zones} & kinds.keys())
            fixed = {(t, zone): [(0.0, listed[t])] for t, zone in zones if listed.get(t)}
            return inventory.offers(kinds.values(), zones, fixed, quotas, since, on_demand=True)
        if len(kinds) <= MOST_TYPES:
            prices = self._history(list(kinds), since)
            return inventory.offers(kinds.values(), zones, prices, quotas, since)
        prices = self._history(list(kinds), now)
        found = inventory.offers(kinds.values(), zones, prices, quotas, now)
        if not history_seconds:
            return found
        prices = {**prices, **self._history(_best(found, needs), since)}
        return inventory.offers(kinds.values(), zones, prices, quotas, since)

    def kind(self, type_: str) -> inventory.InstanceType:
        """Return the data of a type.

        Raises:
            CloudError: There is no such type, or EC2 does not answer.
        """
        with self._lock:
            known = self._kinds.get(type_)
        if known is None:
            [known] = self._describe_types(InstanceTypes=[type_])
        return known

    def price(self, type_: str, zone: str) -> float:
        """Return the spot price in $/h of a type, at most minutes old; 0 if unknown."""
        with self._lock:
            asked, known = self._prices.get(type_, (0.0, {}))
        now = self._clock()
        if now - asked > PRICE_SECONDS:
            found = self._history([type_], now)
            known = {place: points[-1][1] for (_, place), points in found.items()}
            with self._lock:
                self._prices[type_] = (now, known)
        return known.get(zone, 0.0)

    def list_price(self, type_: str) -> float:
        """Return the on-demand price in $/h of a type, at most a day old; 0 if unknown."""
        return self._list.prices([type_]).get(type_, 0.0)

    def quota_code(self, type_: str) -> str:
        """Return the code of the quota that a type counts against; empty if unknown."""
        return quota_code(type_, on_demand=self._on_demand())

    @property
    def over_quota(self) -> str:
        """The code with which EC2 refuses more nodes than the quota allows."""
        return "VcpuLimitExceeded" if self._on_demand() else "MaxSpotInstanceCountExceeded"

    def quotas(self) -> dict[str, int]:
        """Return the vCPUs left of each quota by its code, without quotas that are unknown.

        Spot machines and those on demand have quotas of their own.
        """
        try:
            rows = list(
                self._calls.rows(
                    "service-quotas", "list_service_quotas", "Quotas", ServiceCode="ec2"
                )
            )
        except CloudError as refused:
            if refused.kind != ErrorKind.PERMISSION:
                raise
            return {}
        used, on_demand = self._count_used(), self._on_demand()
        codes = {quota.running if on_demand else quota.code for quota in QUOTAS}
        return {
            row["QuotaCode"]: max(0, int(row["Value"]) - used.get(row["QuotaCode"], 0))
            for row in rows
            if row["QuotaCode"] in codes
        }

    def _count_used(self) -> dict[str, int]:
        """Return the vCPUs of all machines of the account, by the quota that counts them."""
        on_demand = self._on_demand()
        used: dict[str, int] = {}
        # There is no filter for machines on demand.
        spot = [] if on_demand else [{"Name": "instance-lifecycle", "Values": ["spot"]}]
        for row in self._calls.rows(
            "ec2",
            "describe_instances",
            "Reservations.Instances",
            Filters=[
                *spot,
                {"Name": "instance-state-name", "Values": ["pending", "running"]},
            ],
        ):
            if on_demand and row.get("InstanceLifecycle"):
                continue
            code = self.quota_code(row["InstanceType"])
            used[code] = used.get(code, 0) + self.kind(row["InstanceType"]).vcpus
        return used

    def _fitting(self, needs: Needs) -> list[inventory.InstanceType]:
        every = self._book().read(self._clock())
        if not every or not {kind.type for kind in every}.issuperset(needs.types):
            every = self._request_types(needs)
        with self._lock:
            self._kinds.update({kind.type: kind for kind in every})
        return [kind for kind in every if inventory.fits(needs, kind)]

    def _request_types(self, needs: Needs) -> list[inventory.InstanceType]:
        filters = [
            {"Name": "supported-usage-class", "Values": [self._market]},
            {"Name": "bare-metal", "Values": ["false"]},
            {"Name": "processor-info.supported-architecture", "Values": ["x86_64"]},
        ]
        if needs.types:
            filters.append({"Name": "instance-type", "Values": list(needs.types)})
        found = self._describe_types(Filters=filters)
        if not needs.types:
            self._book().write(found, self._clock())
        return found

    @property
    def _market(self) -> str:
        return "on-demand" if self._on_demand() else "spot"

    def _book(self) -> TypeBook:
        """Return the cache of the types that can be bought in this way."""
        return TypeBook(self._folder, self._calls.region, self._market)

    def _describe_types(self, **request: Any) -> list[inventory.InstanceType]:
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
            StartTime=datetime.fromtimestamp(since - CLOCK_SECONDS, UTC),
            **({"InstanceTypes": types} if len(types) <= MOST_TYPES else {}),
        )
        return inventory.prices(rows)


def _best(offers: Iterable[Offer], needs: Needs) -> list[str]:
    """Return the types that rank first for one node or for several."""
    both = zip(rank_offers(offers, needs, 1), rank_offers(offers, needs, 2), strict=True)
    return list(dict.fromkeys(offer.type for pair in both for offer in pair))[:MOST_TYPES]


class TypeBook:
    """A file with a region's types, which is kept for a day.

    Args:
        folder: The file's folder; None for no cache.
        market: How its types are bought: ``spot`` or ``on-demand``.
    """

    def __init__(self, folder: Path | None, region: str, market: str = "spot") -> None:
        self._file = DayFile(folder / f"{_NAMES[market]}-{region}.json" if folder else None)

    def __repr__(self) -> str:
        return f"<TypeBook {self._file}>"

    def read(self, now: float) -> list[InstanceType]:
        """Return all types, at most a day old; an empty list if the cache has none."""
        kept = self._file.read(now)
        try:
            # Another release may have had fewer fields.
            if kept["fields"] != _FIELDS:
                return []
            return [InstanceType(*values) for values in kept["types"]]
        except (TypeError, KeyError):
            return []

    def write(self, kinds: Sequence[InstanceType], now: float) -> None:
        """Write all types to the cache."""
        rows = [[asdict(kind)[name] for name in _FIELDS] for kind in kinds]
        self._file.write({"fields": _FIELDS, "types": rows}, now)
