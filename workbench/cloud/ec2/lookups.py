"""Cache the account and the image of a cluster in a file."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from workbench.core.messages import decode
from workbench.errors import MachineError
from workbench.store.paths import write_private

log = logging.getLogger("workbench.supervisor")
NAME = "lookups.json"


class LookupCache(MutableMapping[str, str]):
    """The cached account and image of one cluster.

    Args:
        folder: The folder of the cluster.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def __repr__(self) -> str:
        return f"<LookupCache {self._path}>"

    def __getitem__(self, key: str) -> str:
        return self._read()[key]

    def __setitem__(self, key: str, value: str) -> None:
        self._keep(self._read() | {key: value})

    def __delitem__(self, key: str) -> None:
        kept = self._read()
        del kept[key]
        self._keep(kept)

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def discard(self) -> None:
        """Delete the cache: the next cluster of this name may have another image or account."""
        self._path.unlink(missing_ok=True)

    def _read(self) -> dict[str, str]:
        try:
            kept: dict[str, str] = decode(dict, self._path.read_bytes())
            return {str(key): str(value) for key, value in kept.items()}
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError, MachineError) as error:
            log.warning("%s cannot be read, so all is looked up again: %s", self._path, error)
            return {}

    def _keep(self, kept: dict[str, str]) -> None:
        write_private(self._path, json.dumps(kept, indent=1))
