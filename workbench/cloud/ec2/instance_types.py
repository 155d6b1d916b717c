"""Cache the instance types of a region for a day, because listing them takes many seconds."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from uuid import uuid4

from workbench.cloud.ec2.inventory import InstanceType

KEPT_SECONDS = 86_400.0
_FIELDS = [field.name for field in fields(InstanceType)]


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
