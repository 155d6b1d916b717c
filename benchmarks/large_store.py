"""What a view waits for: a run of up to ten million points, and a list of up to a thousand runs."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import Batch, Sample
from workbench.pages.feed import Feed
from workbench.pages.operations import runs as listed
from workbench.store import Store
from workbench.supervisor.housekeeping import LOOK_SECONDS, CurveSaving

from .figures import Row, Series
from .place import Place, home

POINTS = (100_000, 1_000_000, 10_000_000)
RUNS = (10, 100, 1_000)
RANKS = 2
WRITER = Path(__file__).parent / "scripts" / "point_writer.py"
LIMIT_SECONDS = 1.0
NAMES = ("main/loss", "main/accuracy", "validation/main/loss", "validation/main/accuracy")


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Open a run of each length, then list each number of runs."""
    rows = []
    for points in POINTS:
        opened, read = _opened(place, points, rounds, say)
        rows.append(
            Row(
                f"opening a run of {points:,} points",
                "s",
                opened,
                read,
                limit=LIMIT_SECONDS,
                note="until a page has all its curves; the run was never watched",
            )
        )
    for number in RUNS:
        seconds = _listed(place, number, rounds)
        say(f"{number} runs: {seconds.median:.4f} s")
        rows.append(Row(f"listing {number:,} runs for the panel", "s", seconds))
    return rows


def _opened(
    place: Place, points: int, rounds: int, say: Callable[[str], None]
) -> tuple[Series, Series]:
    with home(place.path("home")), Store() as store:
        run = _run(store, 0)
        words = [sys.executable, str(WRITER), "store", run, str(points), str(RANKS)]
        subprocess.run(words, check=True, capture_output=True)
        store.put_run_fact(run, state=RunState.FINISHED)
        all_points = Series("all points, once", (_open(store, run),) * rounds)
        saving, begun = CurveSaving(store, "default"), time.process_time()
        saving.turn(LOOK_SECONDS)
        while saving.is_busy:
            saving.turn(LOOK_SECONDS)
        took = time.process_time() - begun
        way = "saved curves" if store.curves.read_saved(run) else "all points: too few to be saved"
        saved = Series(way, tuple(_open(store, run) for _ in range(rounds)))
        say(
            f"{points:,} points: {all_points.median:.3f} s, with saved curves "
            f"{saved.median:.3f} s; saving them took {took:.2f} s of processor time"
        )
    return saved, all_points


def _open(store: Store, run: str) -> float:
    begun = time.perf_counter()
    feed = Feed(store, run)
    while feed.read(time.time()) and not feed.ended:
        pass
    feed.frame(0)
    return time.perf_counter() - begun


def _listed(place: Place, number: int, rounds: int) -> Series:
    with home(place.path("home")), Store() as store:
        for one in range(number):
            run = _run(store, one)
            samples = tuple(Sample(name, 100, 1.7e9, 0.5) for name in NAMES)
            store.reports.add_batches([Batch(run, 0, 1, samples)])
            store.put_run_fact(run, state=RunState.FINISHED, started=1.7e9, ended=1.7e9 + one)
        found = []
        for _ in range(rounds):
            begun = time.perf_counter()
            listed(store, None, number)
            found.append(time.perf_counter() - begun)
    return Series("median", tuple(found))


def _run(store: Store, number: int) -> str:
    wish = RunWish(
        f"261121-{number:06}-aaaa", f"digits {number}", RunKind.CELL, "pass", created=time.time()
    )
    store.wish_run(wish)
    return wish.id
