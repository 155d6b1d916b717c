"""What a live curve costs while it grows in a real page, beside the charts of others."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.notebook.live_widget import LAB_EXTENSION, MODULE
from workbench.requests.run import new_run_id
from workbench.store import Store
from workbench.view.run_output import RUN_TYPE

from . import browser
from .browser import Browser
from .figures import BenchmarkFailed, Row, Series
from .lab import Lab, Notebook
from .place import Place

SCRIPTS = Path(__file__).parent / "scripts"
EVERY_SECONDS = 0.1
# What is not measured of the live time: until the page has found its pace, and at the end.
AHEAD_SECONDS, BEHIND_SECONDS = 2.0, 2.0
SERVER_SECONDS = 0.001
NBYTES = 4_000
PICTURES = "frames a second with a new picture"

# The kernel stays busy, as it is while it trains, and does nothing else.
FOLLOWED = """\
import time
from IPython.display import display
display({{{kind!r}: {{"run": {run!r}, "name": "points"}}, "text/plain": "points"}}, raw=True)
while True:
    time.sleep(10)
"""
WIDGET = """\
import os
os.environ["WORKBENCH_LIVE_VIEW"] = "widget"
from workbench.notebook.cell_output import NotebookDisplay
from workbench.notebook.run_view import RunView
from workbench.store import Store
from workbench.view.following import follow
with Store() as store:
    follow(store, RunView(store.run({run!r}), NotebookDisplay()))
"""
CHART = """\
import sys
sys.path.insert(0, {folder!r})
from live_charts import Live, {chart}
live = Live({chart}, {points})
"""


@dataclass(frozen=True)
class Size:
    """How much is measured.

    Args:
        ours: Points that the run has reported before.
        theirs: Points of the other ways.
        idle_seconds: How long the page is watched before anything is shown.
        seconds: How long it is watched while the curve grows.

    An idle page asks the server for kernels and clusters every few seconds, so both times are long
    and the same.
    """

    ours: int = 1_000_000
    theirs: int = 100_000
    idle_seconds: float = 12.0
    seconds: float = 12.0

    @property
    def updates(self) -> int:
        return round((AHEAD_SECONDS + self.seconds + BEHIND_SECONDS) / EVERY_SECONDS)


@dataclass(frozen=True)
class Way:
    """One way to show a curve that grows.

    Args:
        drawn: What changes in the page: ``canvas``, ``path`` or ``image``.
        chart: A class of ``scripts/live_charts.py``; empty where a run is followed.
        extension: Whether the page has our lab extension.
        requires: The distribution that it needs.
    """

    label: str
    drawn: str
    chart: str = ""
    extension: bool = True
    requires: str = ""


OURS = Way("MIME renderer, server extension", "canvas")
AS_WIDGET = Way("our anywidget, no extension", "canvas", extension=False)
WAYS = (
    OURS,
    AS_WIDGET,
    Way("plotly FigureWidget", "path", "Plotly", requires="plotly"),
    Way("bqplot Lines", "path", "Bqplot", requires="bqplot"),
    Way("matplotlib PNG, update_display", "image", "Matplotlib", requires="matplotlib"),
)


@dataclass(frozen=True)
class Figures:
    """What one way cost.

    Args:
        server: Processor seconds of the Jupyter server an update, beyond the idle page.
        kernel: The same of the kernel.
        nbytes: Bytes to the page an update.
        renderer: Processor seconds a second of what draws the page, beyond the idle page.
        gap: Longest time between two frames in seconds.
        drawn: Frames a second with a new picture.
    """

    server: float
    kernel: float
    nbytes: float
    renderer: float
    gap: float
    drawn: float

    @property
    def both(self) -> float:
        """Processor seconds of server and kernel an update."""
        return self.server + self.kernel

    def __str__(self) -> str:
        return (
            f"server {1e3 * self.server:.2f} ms, kernel {1e3 * self.kernel:.2f} ms and "
            f"{self.nbytes:,.0f} B an update, renderer {100 * self.renderer:.1f} %, "
            f"longest gap {1e3 * self.gap:.0f} ms, drawn {self.drawn:.1f}/s"
        )


def missing() -> str:
    """Return what is not here and has to be, in a sentence; nothing when all is."""
    served = Path(sys.prefix, "share", "jupyter", "labextensions", LAB_EXTENSION, "package.json")
    if not served.exists():
        return "The JupyterLab extension is not installed here; make lab builds it."
    if not shutil.which(browser.NAME):
        return f"There is no {browser.NAME} here; make bench installs it."
    return ""


def measure(
    place: Place, rounds: int, say: Callable[[str], None], size: Size | None = None
) -> list[Row]:
    """Watch each way in a page and a kernel of its own, in turn."""
    if sentence := missing():
        raise BenchmarkFailed(sentence)
    size = size or Size()
    absent = {way.label: lack for way in WAYS if (lack := _lack(way))}
    found: dict[Way, list[Figures]] = {way: [] for way in WAYS if way.label not in absent}
    with Lab(place) as lab:
        for number in range(1, rounds + 1):
            for way in list(found):
                try:
                    found[way].append(_watch(place, lab, way, size))
                except BenchmarkFailed as error:
                    if way is OURS:
                        raise
                    absent[way.label] = str(error).rstrip(".")
                    del found[way]
                    say(f"{way.label}: {error}")
                else:
                    say(f"round {number} of {rounds}: {way.label}: {found[way][-1]}")
    return _rows(found, absent, size)


def _lack(way: Way) -> str:
    """Return why a way cannot be measured here, if so."""
    if way is AS_WIDGET and not MODULE.exists():
        return "its module is not built"
    try:
        importlib.metadata.version(way.requires or "dist-workbench")
    except importlib.metadata.PackageNotFoundError:
        return f"{way.requires} not installed"
    return ""


# -- one way


def _watch(place: Place, lab: Lab, way: Way, size: Size) -> Figures:
    """Measure a page that is idle, and then one whose curve grows."""
    moments = place.path("moments.json")
    with (
        _grown(place, way, size, moments) as (cells, grow),
        Browser(place.path("browser")) as page,
        lab.notebook(page, cells, extension=way.extension) as notebook,
    ):
        time.sleep(AHEAD_SECONDS)
        idle = _during(size.idle_seconds, lab, page)
        notebook.run(0)
        notebook.wait_drawn(way.drawn)
        grow(notebook)
        time.sleep(AHEAD_SECONDS)
        begun = time.time()
        live = _during(size.seconds, lab, page)
        ended = time.time()
        updates = _updates(moments, begun, ended)
    each = (ended - begun) / updates
    return Figures(
        server=each * (live["server"] - idle["server"]),
        kernel=each * (live["kernel"] - idle["kernel"]),
        nbytes=each * live["bytes"],
        renderer=live["renderer"] - idle["renderer"],
        gap=live["gap"],
        drawn=live[way.drawn],
    )


@contextmanager
def _grown(
    place: Place, way: Way, size: Size, moments: Path
) -> Iterator[tuple[list[str], Callable[[Notebook], None]]]:
    """Yield the notebook's cells, the curve's first, and what has it grow."""
    if way.chart:
        show = CHART.format(folder=str(SCRIPTS), chart=way.chart, points=size.theirs)
        yield [show, f"live.go({size.updates}, {str(moments)!r})"], lambda notebook: notebook.run(1)
        return
    points = size.ours if way is OURS else size.theirs
    wish = RunWish(new_run_id(time.time()), "points", RunKind.CELL, "pass")
    with Store() as store:
        store.wish_run(wish)
        store.put_run_fact(
            wish.id,
            state=RunState.RUNNING,
            ranks=4,
            started=time.time(),
            iterations_total=points // 4,
        )
    words = [wish.id, str(points), str(size.updates), str(moments)]
    with subprocess.Popen(
        [sys.executable, str(SCRIPTS / "live_writer.py"), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        try:
            if not writer.stdout or not writer.stdin or writer.stdout.readline() != "ready\n":
                raise BenchmarkFailed("The points could not be written to the store.")
            printed = writer.stdin

            def grow(_: Notebook) -> None:
                printed.write("go\n")
                printed.flush()

            cell = FOLLOWED if way is OURS else WIDGET
            yield [cell.format(kind=RUN_TYPE, run=wish.id)], grow
        finally:
            writer.kill()
            with Store() as store:  # so that nothing looks after the run any longer
                store.put_run_fact(wish.id, state=RunState.STOPPED, ended=time.time())


def _during(seconds: float, lab: Lab, page: Browser) -> dict[str, float]:
    """Return what happens a second: processor seconds by role, bytes, and pictures by kind.

    ``gap`` is the longest time between two frames, in seconds.
    """
    roles = {"server": [lab.pid], "kernel": lab.kernels, "renderer": page.renderers}
    page.evaluate("takeSeen()")
    before, begun = {role: _used(pids) for role, pids in roles.items()}, time.monotonic()
    time.sleep(seconds)
    after, ended = {role: _used(pids) for role, pids in roles.items()}, time.monotonic()
    seen = page.evaluate("takeSeen()")
    passed = ended - begun
    rates = {role: (after[role] - before[role]) / passed for role in roles}
    rates |= {name: amount / passed for name, amount in seen.items()}
    return {**rates, "gap": seen["gap"] / 1e3}


def _used(pids: list[int]) -> float:
    """Return the processor seconds that processes have used, to the nanosecond.

    Linux has a clock of every process, whose number comes from the process's own; what psutil
    reads counts in steps of 10 ms.
    """
    try:
        return sum(time.clock_gettime(~pid << 3 | 2) for pid in pids)
    except OSError as error:
        raise BenchmarkFailed("A process ended while it was watched.") from error


def _updates(moments: Path, begun: float, ended: float) -> int:
    """Return how often the curve grew between two moments."""
    deadline = time.monotonic() + 10 * BEHIND_SECONDS
    while not moments.exists():
        if time.monotonic() > deadline:
            raise BenchmarkFailed("The curve did not grow as often as it was to.")
        time.sleep(0.1)
    written: list[float] = json.loads(moments.read_text(encoding="utf-8"))
    amount = sum(begun <= moment < ended for moment in written)
    if not amount:
        raise BenchmarkFailed("The curve did not grow while the page was watched.")
    return amount


# -- the table


def _rows(found: dict[Way, list[Figures]], absent: dict[str, str], size: Size) -> list[Row]:
    def series(way: Way, figure: Callable[[Figures], float]) -> Series:
        return Series(way.label, tuple(map(figure, found[way])))

    def against(
        what: str, unit: str, figure: Callable[[Figures], float], note: str = ""
    ) -> list[Row]:
        ours = series(OURS, figure)
        return [
            Row(what, unit, ours, series(way, figure), note="" if number else note)
            for number, way in enumerate(way for way in found if way is not OURS)
        ]

    more = f"{size.ours:,} points and 100 more every 100 ms, 2 curves of 4 ranks"
    server = series(OURS, lambda one: one.server)
    nbytes = series(OURS, lambda one: one.nbytes)
    less = f"instead: {size.theirs:,} points, and outside workbench 1 curve, thinned to 2,000"
    return [
        Row("server's processor time an update", "s", server, limit=SERVER_SECONDS, note=more),
        Row("bytes to the page an update", "B", nbytes, limit=NBYTES, note="the same"),
        *against("processor time of server and kernel an update", "s", lambda one: one.both, less),
        *against("bytes to the page an update", "B", lambda one: one.nbytes),
        *against("drawing, beyond the idle page", "%", lambda one: 100 * one.renderer, "of a core"),
        *against("longest time between two frames", "s", lambda one: one.gap),
        *against(PICTURES, "1/s", lambda one: one.drawn, "more is better"),
        *(
            Row("live curve in a page", "", None, note=f"{label}: {lack}")
            for label, lack in absent.items()
        ),
    ]
