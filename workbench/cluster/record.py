"""Write down which worlds there are on several hosts, for whoever succeeds this process."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.core.world import Host, World


@dataclass(frozen=True)
class Record:
    """A world on several hosts, as a successor of this process finds it.

    Args:
        folder: On the first host, relative to the home of whoever logs in there.
        pid: Of mpiexec; 0 while it is being started.
    """

    generation: int
    world: World
    folder: str
    pid: int = 0


def write_records(path: Path, records: Sequence[Record]) -> None:
    """Write down all that there are, or remove the file when there are none."""
    if not records:
        path.unlink(missing_ok=True)
        return
    values = [
        {
            "generation": record.generation,
            "size": record.world.size,
            "oversubscribe": record.world.oversubscribe,
            "hosts": [[h.address, h.slots, h.user, h.port] for h in record.world.hosts],
            "folder": record.folder,
            "pid": record.pid,
        }
        for record in records
    ]
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(values), encoding="utf-8")
    os.replace(temporary, path)


def read_records(path: Path) -> list[Record]:
    """Return what was written down."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [
        Record(
            value["generation"],
            World(tuple(Host(*h) for h in value["hosts"]), value["size"], value["oversubscribe"]),
            value["folder"],
            value["pid"],
        )
        for value in values
    ]
