"""Run a benchmark that starts a process which does not end by itself, and waits."""

import subprocess
import sys
import time
from types import ModuleType

from benchmarks import __main__ as benchmarks
from benchmarks.place import Place

processes_of = Place.processes


def measure(place, rounds, say):
    """Print the folder and the process, and wait for a signal."""
    sleeper = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    print(place.folder, sleeper.pid, flush=True)
    time.sleep(1000)


def processes(place):
    """Say that what was started is being ended."""
    print("ends", flush=True)
    return processes_of(place)


vars(benchmarks)["Place"] = type("Place", (Place,), {"processes": processes})
found = ModuleType("benchmarks.plan")
vars(found)["measure"] = measure
sys.modules["benchmarks.plan"] = found
sys.exit(benchmarks.main(["plan"]))
