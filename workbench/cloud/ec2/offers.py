"""The offers of an EC2 region: types, prices, and the quotas of the account."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from workbench.cloud.ec2 import inventory
from workbench.cloud.ec2.api import Ec2Api
from workbench.cloud.ec2.inventory import CODES, InstanceType, quota_code
from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.fleet.model import Needs, Offer
from workbench.core.fleet.offers import rank_offers
from workbench.errors import CloudError

KEPT_SECONDS = 86_400.0
_FIELDS = [field.name for field in fields(InstanceType)]

PRICE_SECONDS = 300.0  # spot prices change no faster
CLOCK_SECONDS = 60.0  # this computer's clock may be ahead, and the future has no prices
MOST_TYPES = 100  # for more, the prices of all types are requested
_LINUX = "Linux/UNIX"


class Ec2Offers:
    """The offers of one region; types are cached for a day, prices for minutes.

    Args:
        clock: Returns epoch seconds.
        folder: A cache of the types for all processes; None to keep them in this one.
    """

    def __init__(
        self, calls: Ec2Api, clock: Callable[[], float], folder: Path | None = None
    ) -> None:
        self._book = TypeBook(folder, calls.region)
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
        """Return the $/h of a type, at most minutes old; 0 if unknown."""
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
        """Return the vCPUs left of each spot quota by its code, without quotas that are unknown."""
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
        used = self._count_used()
        return {
            row["QuotaCode"]: max(0, int(row["Value"]) - used.get(row["QuotaCode"], 0))
            for row in rows
            if row["QuotaCode"] in CODES
        }

    def _count_used(self) -> dict[str, int]:
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
            code = quota_code(row["InstanceType"])
            used[code] = used.get(code, 0) + self.kind(row["InstanceType"]).vcpus
        return used

    def _fitting(self, needs: Needs) -> list[inventory.InstanceType]:
        every = self._book.read(self._clock())
        if not every or not {kind.type for kind in every}.issuperset(needs.types):
            every = self._request_types(needs)
        with self._lock:
            self._kinds.update({kind.type: kind for kind in every})
        return [kind for kind in every if inventory.fits(needs, kind)]

    def _request_types(self, needs: Needs) -> list[inventory.InstanceType]:
        filters = [
            {"Name": "supported-usage-class", "Values": ["spot"]},
            {"Name": "bare-metal", "Values": ["false"]},
            {"Name": "processor-info.supported-architecture", "Values": ["x86_64"]},
        ]
        if needs.types:
            filters.append({"Name": "instance-type", "Values": list(needs.types)})
        found = self._describe_types(Filters=filters)
        if not needs.types:
            self._book.write(found, self._clock())
        return found

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
    """A file with a region's types; a file that cannot be read or written is ignored.

    Args:
        folder: The file's folder; None for no cache.
    """

    def __init__(self, folder: Path | None, region: str) -> None:
        self._path = folder / f"types-{region}.json" if folder else None

    def __repr__(self) -> str:
        return f"<TypeBook {self._path}>"

    def read(self, now: float) -> list[InstanceType]:
        """Return all types, at most a day old; an empty list if the cache has none."""
        if self._path is None:
            return []
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
            # Another release may have had fewer fields; the clock may have been set.
            if kept["fields"] != _FIELDS or not 0 <= now - kept["at"] < KEPT_SECONDS:
                return []
            return [InstanceType(*values) for values in kept["types"]]
        except (OSError, ValueError, TypeError, KeyError):
            return []

    def write(self, kinds: Sequence[InstanceType], now: float) -> None:
        """Write all types to the cache."""
        if self._path is None:
            return
        rows = [[asdict(kind)[name] for name in _FIELDS] for kind in kinds]
        part = self._path.with_name(f"{self._path.name}.{uuid4().hex}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps({"at": now, "fields": _FIELDS, "types": rows}), "utf-8")
            os.replace(part, self._path)
        except OSError:
            with contextlib.suppress(OSError):
                part.unlink()
