"""Have this Python's wall clock show what a file says: by how many seconds it was set.

Python loads it by itself at its start where its folder is on PYTHONPATH. A real clock belongs to
all users of the machine, and a preloaded one (faketime 0.9.10) breaks ``time.sleep``.
"""

import os
import time

_PATH = os.environ["WORKBENCH_TEST_CLOCK"]
_real = time.time


def _read_clock() -> float:
    with open(_PATH, encoding="ascii") as file:
        return _real() + float(file.read())


time.time = _read_clock
