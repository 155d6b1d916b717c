"""What the compatibility hook costs every start of Python, and what a notebook waits for."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from functools import partial
from pathlib import Path

import workbench

from .figures import Row, Series, interleaved
from .place import Place

STARTS_A_ROUND = 8
PTH = "workbench_compat.pth"
OURS, THEIRS = "with the hook", "without"
IMPORTING = (
    "import time; begun = time.perf_counter(); import workbench; print(time.perf_counter() - begun)"
)
LOADING = Path(__file__).parent / "scripts" / "load_extension.py"
LIMIT_SECONDS = 0.3


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Start the Pythons of two environments, that differ in the ``.pth`` alone, in turn."""
    pythons = {OURS: _environment(place, hook=True), THEIRS: _environment(place, hook=False)}
    for python in pythons.values():
        _start(python)  # writes the .pyc files
    found = interleaved(
        STARTS_A_ROUND * rounds,
        {label: partial(_start, python) for label, python in pythons.items()},
        lambda text: None,
    )
    medians = ", ".join(f"{label} {series.median:.5g}" for label, series in found.items())
    say(f"{STARTS_A_ROUND * rounds} starts: {medians}")
    more = tuple(a - b for a, b in zip(*(s.values for s in found.values()), strict=True))
    return [
        Row("python -c pass", "s", found[OURS], found[THEIRS]),
        Row("what the hook adds", "s", Series("median of the differences", more)),
        Row(
            "import workbench",
            "s",
            Series(
                "median",
                tuple(_printed(str(pythons[THEIRS]), "-c", IMPORTING) for _ in range(rounds)),
            ),
            note="in a new process, without the hook",
        ),
        Row(
            "%load_ext workbench",
            "s",
            Series("median", tuple(_printed(sys.executable, str(LOADING)) for _ in range(rounds))),
            limit=LIMIT_SECONDS,
            note="in a new process that has imported what a kernel has",
        ),
    ]


def _printed(*command: str) -> float:
    """Return the number that a command prints."""
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _environment(place: Place, *, hook: bool) -> Path:
    """Make an environment with workbench in it as its wheel would be."""
    folder = place.path("environment")
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    package = Path(workbench.__file__).parent
    shutil.copytree(package, site / "workbench", ignore=shutil.ignore_patterns("__pycache__"))
    if hook:
        shutil.copy(package / "compat" / PTH, site / PTH)
    return folder / "bin" / "python"


def _start(python: Path) -> float:
    start = time.perf_counter()
    subprocess.run([python, "-c", "pass"], check=True)
    return time.perf_counter() - start
