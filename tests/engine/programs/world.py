"""What a program of ranks has at hand: its world, and what its rank has found for the test.

``PROGRAM FOLDER FAULT_TOLERANT ARGUMENT…``: a program ends with ``write_found()``, or with
``print_found()`` on a host whose files the test does not see.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mpi4py import MPI

from workbench.core.run.rank_protocol import Batch, Event, EventReport, decode_message
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.timing.mpi_calls import GenerationWorlds

folder, fault_tolerant = Path(sys.argv[1]), sys.argv[2] == "1"
arguments = sys.argv[3:]
real = MPI.COMM_WORLD
rank, size = real.rank, real.size
worlds = GenerationWorlds(fault_tolerant=fault_tolerant)
real.Barrier()  # as the supervisor does: nothing begins before all have joined
found: dict[str, Any] = {}


def events_of(log: RunLog) -> list[Event]:
    """Return the events of a log, also those that it has stored already."""
    path = log.outbox.path
    lines = path.read_bytes().splitlines() if path.exists() else []
    batches = [one for one in map(decode_message, lines) if isinstance(one, Batch)]
    stored = [report.event for one in batches for report in one.events]
    return stored + [one.event for one in log._samples if isinstance(one, EventReport)]


def write_found() -> None:
    """Leave what this rank has found where the test looks for it."""
    part = folder / f"{rank}.part"
    part.write_text(json.dumps(found))
    part.rename(folder / f"{rank}.json")


def print_found() -> None:
    """Print what this rank has found as one line, which ``ShapedHosts.mpi`` reads."""
    sys.stdout.write(f"found: {json.dumps({'rank': rank, **found})}\n")
    sys.stdout.flush()
