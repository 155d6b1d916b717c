"""From the cell to the end of the first iteration on a warm cluster, over bare mpiexec's start."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from . import bare, peers
from .figures import BenchmarkFailed, Row, interleaved
from .kernel import Kernel
from .place import Place, cluster, held

RANKS = 2
SEED = 0
WHAT = "to the end of the first iteration"
OURS, PX = "%%dist_train", "%%px --block"
THEIRS = f"mpiexec -n {RANKS} python script.py"
CONNECT = "import workbench\nengines = workbench.client()"


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Train a few iterations in each way, in turn."""
    with cluster(RANKS), Kernel() as kernel, ExitStack() as stack:
        kernel.run("%load_ext workbench")
        kernel.run(CONNECT)
        for magic in (OURS, PX):  # what is warm later is made warm here
            _from_cell(place, kernel, magic)
        ways = {
            OURS: partial(_from_cell, place, kernel, OURS),
            PX: partial(_from_cell, place, kernel, PX),
            THEIRS: partial(_from_mpiexec, place),
        }
        absent = []
        for peer in peers.PEERS:
            try:
                ways[peer.label] = stack.enter_context(peers.ready(place, peer))
            except BenchmarkFailed as error:
                absent.append(Row(WHAT, "s", None, note=f"{peer.label}: {error}"))
        found = interleaved(rounds, ways, say)
    notes = {OURS: "same script; warm cluster", PX: "on the same engines, for comparison"}
    reference = found.pop(THEIRS)
    return [
        Row(
            WHAT,
            "s",
            series,
            reference,
            goal=0.1 if label == OURS else None,
            note=notes.get(label, peers.WORK),
        )
        for label, series in found.items()
    ] + absent


def _from_cell(place: Place, kernel: Kernel, magic: str) -> float:
    """Return the seconds from sending a cell, which is the script's text, to its kernel."""
    path = place.path("times.json")
    source = bare.SCRIPT.read_text(encoding="utf-8")
    argv = ["script.py", *_arguments(path, place)]
    answer = kernel.run(f"{magic}\nimport sys\nsys.argv = {argv!r}\n{source}")
    return _first(path) - answer.asked


def _from_mpiexec(place: Place) -> float:
    path = place.path("times.json")
    with held(place.processes()):
        started = bare.mpiexec(place, RANKS, _arguments(path, place))
    return _first(path) - started


def _arguments(path: Path, place: Place) -> list[str]:
    out = str(place.folder / "result")
    return f"--iterations 3 --seed {SEED} --times {path} --out {out}".split()


def _first(path: Path) -> float:
    if not path.exists():
        raise BenchmarkFailed("The script ended without having written its times.")
    return float(json.loads(path.read_text(encoding="utf-8"))["first"])
