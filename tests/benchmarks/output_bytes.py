"""Bytes to the browser for lines that four ranks print, over those of ``%%px``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from .figures import BenchmarkFailed, Row, Series, interleaved
from .kernel import Kernel
from .place import Place, cluster

RANKS = 4
SECONDS = 4.0
EACH = (50, 100, 400)
PRINTING = """\
import time
from mpi4py import MPI
for i in range({lines}):
    print(f"rank {{MPI.COMM_WORLD.rank}} iteration {{i:4d}} main/loss {{1 / (i + 1):.6f}}")
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
                    "%%dist_train": partial(_nbytes, ours, "%%dist_train", lines),
                    "%%px": partial(_nbytes, theirs, "%%px", lines),
                },
                lambda text, lines=lines: say(f"{RANKS * lines} lines: {text}"),
            )
    return [
        Row(
            f"bytes to the browser, {RANKS * lines:,} lines",
            "B",
            series["%%dist_train"],
            series["%%px"],
            goal=1 / 50,
            note=f"{lines} on each of {RANKS} ranks",
        )
        for lines, series in found.items()
    ]


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
    if "rank 0" not in answer.text and "rank 0" not in answer.shown:
        raise BenchmarkFailed(f"{magic} showed nothing of what its ranks printed.")
    return float(answer.nbytes)
