"""What a program of ranks that have joined a supervisor has at hand.

``PROGRAM FOLDER FAULT_TOLERANT ENDPOINT KEY ARGUMENT…``: a program ends with ``stay()``.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from IPython.core.events import EventManager, available_events
from IPython.core.formatters import DisplayFormatter
from IPython.core.inputtransformer2 import TransformerManager
from mpi4py import MPI

from workbench.core.run.model import Assignment, RunKind, RunWish
from workbench.engine.execution import execute
from workbench.engine.output.output_capture import route_output
from workbench.engine.rank import Rank
from workbench.engine.reporting.channel import Address

ACKNOWLEDGE_SECONDS = 10.0
folder, fault_tolerant, endpoint, key = Path(sys.argv[1]), sys.argv[2] == "1", *sys.argv[3:5]
arguments = sys.argv[5:]
real = MPI.COMM_WORLD
shell: Any = SimpleNamespace(
    user_ns={"__name__": "__main__"},
    transform_cell=TransformerManager().transform_cell,
    display_formatter=DisplayFormatter(),
    run_cell=None,
)
shell.events = EventManager(shell, available_events)
route_output()
rank = Rank(
    3, Address(endpoint, key.encode()), fault_tolerant=fault_tolerant, crash_folder=str(folder)
)
real.Barrier()
found: dict[str, Any] = {"fact": asdict(rank.fact(5))}


def run(name: str, source: str, **changes: Any) -> None:
    """Execute a cell as a run on two ranks; ``changes`` are other fields of its assignment."""
    wish = RunWish(name, "", RunKind.CELL, source)
    assignment = Assignment(wish, ranks=2, directory=str(folder / name))
    execute(rank, replace(assignment, **changes), shell)


def wait_for_word(name: str = "word") -> None:
    """Wait for a file of the test's: a supervisor continues when all ranks have left a run."""
    while not (folder / name).exists():
        time.sleep(0.01)


def stay() -> None:
    """Wait until the supervisor has all that the runs sent; leave what this rank has found."""
    deadline = time.monotonic() + ACKNOWLEDGE_SECONDS
    while rank._channel._logs and time.monotonic() < deadline:
        time.sleep(0.01)
    real.Barrier()
    (folder / f"{rank.number}.json").write_text(json.dumps(found))
    sys.stdin.close()
