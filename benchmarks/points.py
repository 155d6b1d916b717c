"""A million points written and followed, and the way of one point from its rank to a reader."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import quantiles

from workbench.core.run.model import Run, RunKind, RunState, RunWish
from workbench.notebook.run_view import RunView
from workbench.requests.run import ask_run, new_run_id
from workbench.server.run_reader import LOOK_SECONDS
from workbench.store import Store
from workbench.view.following import FollowPace, follow
from workbench.view.run_output import Bundle
from workbench.view.run_record import POINTS_AT_ONCE

from .figures import BenchmarkFailed, Row, Series, interleaved
from .place import Place, cluster, home

POINTS = 1_000_000
RANKS = 2
WRITER = Path(__file__).parent / "scripts" / "point_writer.py"
OURS, THEIRS = "store", "JSON lines, appended and tailed"
POLL_SECONDS = 0.05
LIMIT_SECONDS = 0.15
REPORTING = """\
import time, workbench
for i in range(500):
    workbench.report(sent=time.time(), total=500)
    time.sleep(0.02)
"""


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Write and follow with both, in turn; then follow real ranks."""
    written: dict[str, list[float]] = {OURS: [], THEIRS: []}
    ways = {OURS: partial(_store, place, written), THEIRS: partial(_lines, place, written)}
    followed = interleaved(rounds, ways, say)
    rows = [
        Row(
            "points written a second",
            "1/s",
            *(Series(label, tuple(values)) for label, values in written.items()),
            note=f"{POINTS:,} points, 500 a transaction, with a reader; more is better",
        ),
        Row("points followed a second", "1/s", *followed.values(), note="more is better"),
    ]
    return rows + _delay_rows(place, rounds, say)


def _store(place: Place, written: dict[str, list[float]]) -> float:
    path = place.path("home")
    with home(path), Store() as store:
        wish = RunWish(new_run_id(time.time()), "points", RunKind.CELL, "pass")
        store.wish_run(wish)
        store.put_run_fact(wish.id, state=RunState.RUNNING)
        begun = time.perf_counter()
        writer = _writer("store", wish.id)
        seen = last = 0
        version = -1
        while seen < POINTS:
            if (now := store.data_version()) == version:
                _check(writer)
                time.sleep(POLL_SECONDS)
            version = now
            while rows := store.reports.points(wish.id, last, POINTS_AT_ONCE):
                seen, last = seen + len(rows), rows[-1].sequence
        seconds = time.perf_counter() - begun
        written[OURS].append(_rate(writer))
    return POINTS / seconds


def _lines(place: Place, written: dict[str, list[float]]) -> float:
    path = place.path("points.jsonl")
    path.touch()
    begun = time.perf_counter()
    writer = _writer("lines", str(path))
    seen = 0
    with path.open(encoding="utf-8") as file:
        while seen < POINTS:
            line = file.readline()
            if line.endswith("\n"):
                json.loads(line)
                seen += 1
            else:  # the end so far, or a line that is being written
                file.seek(file.tell() - len(line))
                _check(writer)
                time.sleep(POLL_SECONDS)
    seconds = time.perf_counter() - begun
    written[THEIRS].append(_rate(writer))
    return POINTS / seconds


def _writer(kind: str, target: str) -> subprocess.Popen[str]:
    words = [sys.executable, str(WRITER), kind, target, str(POINTS), str(RANKS)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def _check(writer: subprocess.Popen[str]) -> None:
    if writer.poll():
        raise BenchmarkFailed(f"The writer ended with code {writer.returncode}.")


def _rate(writer: subprocess.Popen[str]) -> float:
    said, _ = writer.communicate(timeout=60)
    return POINTS / float(said)


class _Nowhere:
    """A page that is not looked at."""

    def show(
        self, place: str, bundle: Bundle, metadata: Bundle | None = None, *, final: bool = False
    ) -> None:
        pass

    def write(self, stream: str, text: str) -> None:
        pass


class _Watching(RunView):
    """The view of a run, that also notes how old each point is when it has read it."""

    pace = FollowPace(look=LOOK_SECONDS, read=LOOK_SECONDS)  # of the server, which reads for pages

    def __init__(self, run: Run) -> None:
        super().__init__(run, _Nowhere())
        self.delays: list[float] = []
        self._last = 0

    def read(self, store: Store, now: float) -> None:
        store.put_open_pages(self.record.run.id, "benchmark", 1, now)  # as a page's server does
        super().read(store, now)
        rows = store.reports.points(self.record.run.id, self._last)
        self.delays += [time.time() - row.value for row in rows if row.name == "sent"]
        self._last = rows[-1].sequence if rows else self._last


def _delay_rows(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    middles, lates = [], []
    with cluster(RANKS):
        for number in range(1, rounds + 1):
            delays = _delays()
            cuts = quantiles(delays, n=20)
            middles.append(cuts[9])
            lates.append(cuts[18])
            say(f"round {number} of {rounds}: delay {cuts[9]:.3f} s, 95 % within {cuts[18]:.3f} s")
    return [
        Row(
            "from report to reader, median",
            "s",
            Series("median", tuple(middles)),
            limit=LIMIT_SECONDS,
            note=f"report() every 20 ms on {RANKS} ranks, read as a page does",
        ),
        Row("from report to reader", "s", Series("95 % within", tuple(lates))),
    ]


def _delays() -> list[float]:
    with Store() as store:
        wish = ask_run(store, kind=RunKind.CELL, source=REPORTING)
        view = _Watching(store.run(wish.id))
        follow(store, view)
    return view.delays
