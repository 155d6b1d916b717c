"""Bytes to the browser for lines that four ranks print, over those of ``%%px``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from .figures import BenchmarkFailed, Row, Series, interleaved
from .kernel import Kernel
from .place import Place, cluster

RANKS = 4
OURS, PX = "%%dist_train", "%%px --block"
SECONDS = 4.0
EACH = (100, 200, 400)
# Flushed, as PrintReport and tqdm do it: otherwise the stock engines gather for 0.2 s.
PRINTING = """\
import time
from mpi4py import MPI
for i in range({lines}):
    line = f"rank {{MPI.COMM_WORLD.rank}} iteration {{i:4d}} main/loss {{1 / (i + 1):.6f}}"
    print(line, flush=True)
    time.sleep({pause})
"""
# As root, and with fewer cores than ranks, the stock launcher needs help to start at all.
STOCK = f"""\
import ipyparallel as ipp
from ipyparallel.cluster.launcher import MPIEngineSetLauncher
MPIEngineSetLauncher.mpi_args = ["--map-by", ":OVERSUBSCRIBE"]
cluster = ipp.Cluster(engines="mpi", n={RANKS})
engines = cluster.start_and_connect_sync(activate=True)
"""


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Print the same in both, in turn."""
    found: dict[int, dict[str, Series]] = {}
    with cluster(RANKS), Kernel() as ours, _stock() as theirs:
        ours.run("%load_ext workbench")
        for lines in EACH:
            found[lines] = interleaved(
                rounds,
                {
                    OURS: partial(_nbytes, ours, OURS, lines),
                    PX: partial(_nbytes, theirs, PX, lines),
                },
                lambda text, lines=lines: say(f"{RANKS * lines} lines: {text}"),
            )
    return [_row(lines, series) for lines, series in found.items()] + [_growth(found)]


def _row(lines: int, series: dict[str, Series]) -> Row:
    what = f"bytes to the browser, {lines} lines on each of {RANKS} ranks"
    goal = 1 / 50 if lines == EACH[-1] else None
    return Row(what, "B", series[OURS], series[PX], goal=goal, note=f"within {SECONDS:g} s")


def _growth(found: dict[int, dict[str, Series]]) -> Row:
    """Return by how much bytes grow when lines double: 2 is linear, 4 is quadratic."""
    grown = [
        Series(
            label,
            tuple(
                b / a
                for a, b in zip(
                    found[EACH[-2]][label].values, found[EACH[-1]][label].values, strict=True
                )
            ),
        )
        for label in (OURS, PX)
    ]
    return Row("growth of the bytes when lines double", "×", *grown, note="2 is linear")


@contextmanager
def _stock() -> Iterator[Kernel]:
    with Kernel() as kernel:
        kernel.run(STOCK)
        try:
            yield kernel
        finally:
            kernel.run("engines.close()\ncluster.stop_cluster_sync()")


def _nbytes(kernel: Kernel, magic: str, lines: int) -> float:
    cell = PRINTING.format(lines=lines, pause=SECONDS / lines)
    answer = kernel.run(f"{magic}\n{cell}")
    if "main/loss" not in answer.text + answer.shown:
        raise BenchmarkFailed(f"{magic} showed nothing of what its ranks printed.")
    return float(answer.nbytes)
