"""What a page that follows a run costs its iterations, where it shares the ranks' two cores.

One training goes through phases: with the page as a run that has just begun, with it as one that
is old and is shown less often, and with browser and Jupyter server held. A phase is compared with
the held ones before and after it. The run's age is simulated. What browser and server take before
there is a run is stated beside it: JupyterLab's own page is not idle.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

import psutil

from .browser import Browser
from .figures import BenchmarkFailed, Row, Series, with_interval
from .lab import Lab
from .live_view import missing
from .paired_iteration import RANKS
from .place import Place, cluster, held
from .usage import PAGE, usage_of

SCRIPT = Path(__file__).with_name("scripts") / "open_page_steps.py"
PHASE_SECONDS, CYCLES = 6.0, 8  # of a round
SETTLED_SECONDS = 2.0  # of a phase, which do not count
YOUNG, OLD, HELD = "young", "old", "held"
AGES = {YOUNG: "a run that has just begun", OLD: "a run of twenty minutes"}
GOALS = {YOUNG: None, OLD: 1.01}
LOADED_SECONDS, IDLE_SECONDS = 15.0, 10.0  # until a new page is at rest, and while it is watched
LATE_SECONDS = 60.0


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Train once in front of a page in Chromium, all rounds in a row, and compare the phases."""
    if sentence := missing():
        raise BenchmarkFailed(sentence)
    names = [HELD, *[YOUNG, HELD, OLD, HELD] * (CYCLES * rounds)]
    start, times = place.path("start"), place.path("times.json")
    script = f"%dist_train {SCRIPT} {start} {PHASE_SECONDS} {','.join(names)} {times}"
    with (
        cluster(RANKS),
        Lab(place) as lab,
        Browser(place.path("browser"), watched=False) as page,
        lab.notebook(page, ["%load_ext workbench", script]) as notebook,
    ):
        notebook.run(0)
        shown = [psutil.Process(pid) for pid in (lab.pid, *page.processes)]
        usage = usage_of(place, lab.kernels[0])
        del usage.roles[PAGE]
        usage.roles = {
            role: [one for one in found if one not in shown] for role, found in usage.roles.items()
        } | {"Jupyter server": shown[:1], "browser": shown[1:]}
        time.sleep(LOADED_SECONDS)
        idle = usage.watch(IDLE_SECONDS)
        notebook.run(1)
        notebook.wait_points()
        begun = time.time() + SETTLED_SECONDS
        _write(start, begun)
        shares: dict[str, list[dict[str, float]]] = {name: [] for name in AGES}
        for number, name in enumerate(names):
            time.sleep(max(0.0, begun + number * PHASE_SECONDS - time.time()))
            if name == HELD:
                with held(shown):
                    time.sleep(max(0.0, begun + (number + 1) * PHASE_SECONDS - time.time()))
            else:
                time.sleep(SETTLED_SECONDS)
                shares[name].append(usage.watch(PHASE_SECONDS - SETTLED_SECONDS - 0.2))
        moments = _read(times)
    means = means_of(moments, begun, len(names))
    say(f"a page without a run; of a core: {_parts(idle)}")
    rows = []
    for age, what in AGES.items():
        phases = [number for number, name in enumerate(names) if name == age]
        ratios = ratios_of(means, phases)
        used = {role: median(share[role] for share in shares[age]) for role in shares[age][0]}
        parts = _parts(used)
        say(f"{what}: {with_interval(ratios)}; of a core: {parts}")
        own = [means[number] for number in phases]
        alone = [mean / one for mean, one in zip(own, ratios, strict=True)]
        rows.append(
            Row(
                f"iteration, mean, a page open, {what}",
                "s",
                Series("workbench", tuple(own)),
                Series("browser and Jupyter server held", tuple(alone)),
                goal=GOALS[age],
                note=f"{len(ratios)} phases; of a core: {parts}; before the run: {_parts(idle)}",
                pairs=tuple(ratios),
            )
        )
    return rows


def _parts(shares: dict[str, float]) -> str:
    return ", ".join(f"{role} {100 * share:.1f} %" for role, share in shares.items() if share)


def means_of(moments: Sequence[float], begun: float, phases: int) -> list[float]:
    """Return the mean seconds of an iteration in each phase, without its first seconds."""
    times: list[list[float]] = [[] for _ in range(phases)]
    for before, moment in pairwise(moments):
        number, within = divmod(before - begun, PHASE_SECONDS)
        if 0 <= number < phases and within >= SETTLED_SECONDS:
            times[int(number)].append(moment - before)
    if not all(times):
        raise BenchmarkFailed("A phase had no iteration.")
    return [fmean(one) for one in times]


def ratios_of(means: Sequence[float], phases: Sequence[int]) -> list[float]:
    """Return the ratio of each of the phases to the two beside it."""
    return [means[n] / fmean((means[n - 1], means[n + 1])) for n in phases]


def _write(path: Path, moment: float) -> None:
    new = path.with_suffix(".new")
    new.write_text(repr(moment), encoding="utf-8")
    new.replace(path)


def _read(path: Path) -> list[float]:
    """Return what the script writes at its end."""
    deadline = time.monotonic() + LATE_SECONDS
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text(encoding="utf-8")).endswith("]"):
            moments: list[float] = json.loads(text)
            return moments
        time.sleep(0.1)
    raise BenchmarkFailed(f"{SCRIPT.name} did not end.")
