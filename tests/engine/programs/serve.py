"""Run programs one after another on ranks that stay, as a test hands them over.

``serve.py FOLDER FAULT_TOLERANT OWNER``: folders 1, 2, … below FOLDER have ``arguments.json`` each,
the program's path first; each rank leaves a file there, ``RANK.done`` or ``RANK.failed``. The ranks
end when the process OWNER has.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
import time
import traceback
from pathlib import Path
from types import ModuleType

import numpy
from mpi4py import MPI

from workbench.engine.forked_children import ForkedChildren
from workbench.engine.timing import mpi_calls
from workbench.engine.timing.call_timing import PythonActivity
from workbench.engine.timing.step_probe import MpiActivity

FOLDER, FAULT_TOLERANT, OWNER = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
POLL_SECONDS = 0.005
REAL = MPI.COMM_WORLD


def wait_for(path: Path) -> None:
    while not path.exists():
        os.kill(OWNER, 0)
        time.sleep(POLL_SECONDS)


def run(place: Path) -> None:
    """Run one program as a script of its own, in this process."""
    path, folder, *arguments = json.loads((place / "arguments.json").read_text())
    sys.argv = [path, folder, FAULT_TOLERANT, *arguments]
    for name in [name for name in sys.modules if name.startswith("tests.")]:
        del sys.modules[name]  # its world and what it has found are each program's own
    module = ModuleType("__main__")  # what ranks send each other is pickled by the module's name
    sys.modules["__main__"] = module
    random.seed(0)
    numpy.random.seed(0)
    fresh = MpiActivity()
    for name in (*MpiActivity.__slots__, *PythonActivity.__slots__):
        setattr(mpi_calls.watch, name, getattr(fresh, name))
    exec(compile(Path(path).read_text(), path, "exec"), module.__dict__)


def left() -> str:
    """Return what a program has left to those after it, once all ranks have ended it."""
    REAL.Barrier()
    return "a message is left" if REAL.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG) else ""


def main() -> None:
    environment, folder = dict(os.environ), os.getcwd()
    ForkedChildren([])  # as on ranks: a loader's processes are forked after other trainings
    for number in itertools.count(1):
        place = FOLDER / str(number)
        wait_for(place / "arguments.json")
        said = ""
        try:
            run(place)
            said = left()
        except BaseException:  # noqa: BLE001  # the test reports it
            said = traceback.format_exc()
        os.environ.clear()
        os.environ |= environment
        os.chdir(folder)
        MPI.COMM_WORLD = REAL  # type: ignore[misc]  # a watched one is there after an offer
        result = place / f"{REAL.rank}.{'failed' if said else 'done'}"
        part = result.with_suffix(".part")
        part.write_text(said)
        part.rename(result)


main()
