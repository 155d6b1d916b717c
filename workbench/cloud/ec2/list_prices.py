"""The on-demand prices of a region's types, from AWS's price list."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from workbench.cloud.ec2.api import Ec2Api

KEPT_SECONDS = 86_400.0
# One call for each of so few types; for more, the whole list of the region, which has many pages.
FEW = 5
# AWS's price list guide, "Finding services and products": of all that is on the list, an hour of a
# plain Linux machine that is not reserved and shares its hardware.
_PLAIN = {
    "operatingSystem": "Linux", "preInstalledSw": "NA", "tenancy": "Shared",
    "capacitystatus": "Used", "marketoption": "OnDemand",
}  # fmt: skip


class ListPrices:
    """The on-demand prices of one region; each is kept for a day.

    Args:
        clock: Returns epoch seconds.
        folder: A cache of the whole list for all processes; None to keep it in this one.
    """

    def __init__(
        self, calls: Ec2Api, clock: Callable[[], float], folder: Path | None = None
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._file = DayFile(folder / f"prices-{calls.region}.json" if folder else None)
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, float]] = {}

    def __repr__(self) -> str:
        return f"<ListPrices {self._calls.region}>"

    def prices(self, types: Iterable[str]) -> dict[str, float]:
        """Return the $/h of types; 0 for those that are not on the list.

        Raises:
            CloudError: The price list does not answer, or denies the call.
        """
        types, now = set(types), self._clock()
        with self._lock:
            known = {
                type_: price
                for type_, (asked, price) in self._kept.items()
                if 0 <= now - asked < KEPT_SECONDS
            }
        if missing := types - known.keys():
            found = self._ask(missing, now)
            with self._lock:
                self._kept.update({type_: (now, found.get(type_, 0.0)) for type_ in missing})
            known |= found
        return {type_: known.get(type_, 0.0) for type_ in types}

    def _ask(self, types: set[str], now: float) -> dict[str, float]:
        try:
            listed: dict[str, float] = dict(self._file.read(now)["prices"])
        except (TypeError, KeyError, ValueError):
            listed = {}
        if types <= listed.keys() or (listed and len(types) > FEW):
            return listed
        if len(types) <= FEW:
            return {type_: self._request(instanceType=type_).get(type_, 0.0) for type_ in types}
        listed = self._request()
        self._file.write({"prices": listed}, now)
        return listed

    def _request(self, **more: str) -> dict[str, float]:
        wanted = {**_PLAIN, "regionCode": self._calls.region, **more}
        rows = self._calls.rows(
            "pricing",
            "get_products",
            "PriceList",
            ServiceCode="AmazonEC2",
            Filters=[
                {"Type": "TERM_MATCH", "Field": field, "Value": value}
                for field, value in wanted.items()
            ],
        )
        return read_prices(str(row) for row in rows)


def read_prices(rows: Iterable[str]) -> dict[str, float]:
    """Read the $/h of each type from the entries of GetProducts, which are JSON texts."""
    found: dict[str, float] = {}
    for row in map(json.loads, rows):
        type_ = row["product"]["attributes"].get("instanceType", "")
        hours = [price for price in _hours(row) if price > 0]
        if type_ and hours:
            found[type_] = min([*hours, *([found[type_]] if type_ in found else [])])
    return found


def _hours(row: Mapping[str, Any]) -> Iterable[float]:
    for term in row["terms"].get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            if dimension["unit"] == "Hrs":
                yield float(dimension["pricePerUnit"].get("USD", 0.0))


class DayFile:
    """A file of JSON that is kept for a day; one that cannot be read or written is ignored.

    Args:
        path: None for no file.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def __repr__(self) -> str:
        return f"<DayFile {self._path}>"

    def read(self, now: float) -> Any:
        """Return what was written, at most a day ago; None if there is nothing."""
        if self._path is None:
            return None
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
            # The clock may have been set.
            return kept if 0 <= now - kept["at"] < KEPT_SECONDS else None
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write(self, kept: Mapping[str, Any], now: float) -> None:
        """Write the file."""
        if self._path is None:
            return
        part = self._path.with_name(f"{self._path.name}.{uuid4().hex}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps({"at": now, **kept}), "utf-8")
            os.replace(part, self._path)
        except OSError:
            with contextlib.suppress(OSError):
                part.unlink()
