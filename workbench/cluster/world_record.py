"""Record which worlds run on several hosts, for the next supervisor."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from workbench.core.node.validation import fitted, parsed
from workbench.core.world.world import World
from workbench.errors import MachineError


@dataclass(frozen=True)
class WorldRecord:
    """A world on several hosts, as a successor of this process finds it.

    Args:
        folder: On the first host, relative to the home of the user who logs in there.
        pid: Of mpiexec; 0 while it is being started.
    """

    generation: int
    world: World
    folder: str
    pid: int = 0


def write_records(path: Path, records: Sequence[WorldRecord]) -> None:
    """Write down all that there are, or remove the file when there are none."""
    if not records:
        path.unlink(missing_ok=True)
        return
    values = [asdict(record) for record in records]
    temporary = path.with_suffix(".new")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        json.dump(values, file)
    os.replace(temporary, path)


def read_records(path: Path) -> list[WorldRecord]:
    """Return what was written down; nothing where that makes no sense."""
    try:
        return [*fitted(tuple[WorldRecord, ...], parsed(path.read_bytes()))]
    except (OSError, MachineError):
        return []
