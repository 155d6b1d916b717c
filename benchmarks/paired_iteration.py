"""What workbench costs an iteration, by blocks with and without it in the same ranks.

A run and a plain training take turns in one world. In the plain blocks supervisor, kernel and
controller are held. So a pair shares processes, memory layout and the machine's mood, by which two
worlds of one program differ by several percent. What was held makes up for it once it is free,
which is no cost of a usual run: after each plain block one block of the run does not count. The
ratio is the median of the pairs' ratios of mean times; half of its 95 % interval is what the
benchmark can tell. All that count are equally long: a rare delay is in most long blocks and in few
short ones, which makes the median of their ratios too great. A control has plain blocks only.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

import psutil

from workbench.store import Store

from .figures import BenchmarkFailed, Row, Series, with_interval
from .kernel import Kernel
from .place import Place, cluster
from .usage import middle, usage_of

SCRIPT = Path(__file__).with_name("scripts") / "paired_iterations.py"
RANKS = 2
BLOCK, PAIRS = 200, 20  # iterations of a block, and pairs of a round
COUNTED = 150  # the last ones of a block
FREE_BLOCKS = 2  # of the run between two plain ones; only the last counts
MOST_ROUNDS = 3
# What they do once a second, they do as often where they are held for a third of the time.
AT_MOST = "of one core, at most: 1.5 times what was found, since they are held a third of the time"
SECONDS = 600.0
FOLLOWED, ALONE, CONTROL = "a page open", "no page open", "control"
GOALS = {FOLLOWED: 1.01, ALONE: 1.005, CONTROL: None}
Blocks = Sequence[Sequence[float]]


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Train in blocks, with a page that draws, with none, and without workbench in any block."""
    rows: list[Row] = []
    for seen, goal in GOALS.items():
        found: list[tuple[Blocks, Blocks]] = []
        shares: list[dict[str, float]] = []
        with cluster(RANKS), Kernel() as kernel:
            kernel.run("%load_ext workbench")
            _train(place, kernel, lambda: None, FOLLOWED, pairs=2)  # loads what draws
            for number in range(1, min(rounds, MOST_ROUNDS) + 1):
                begun = time.time()
                usage = usage_of(place, kernel.pid)
                found.append(_train(place, kernel, usage.look, seen))
                shares.append(usage.shares(begun, time.time()))
                ratios = [ratio for one in found for ratio in ratios_of(*one)]
                say(f"{seen}, round {number}: {with_interval(ratios)}, {len(ratios)} pairs")
        rows.append(_row(seen, goal, found))
        if seen != CONTROL:
            rows += [
                Row(f"processor, {seen}", "%", Series(role, (150 * share,)), note=AT_MOST)
                for role, share in sorted(middle(shares).items(), key=lambda item: -item[1])
            ]
    return rows


def ratios_of(ours: Blocks, theirs: Blocks, counted: int = COUNTED) -> list[float]:
    """Return for each block without its ratio to the blocks before and after it."""
    means = [fmean(block[-counted:]) for block in ours]
    beside = [fmean(pair) for pair in pairwise(means)]
    return [a / fmean(b[-counted:]) for a, b in zip(beside, theirs, strict=True)]


def _row(seen: str, goal: float | None, found: Sequence[tuple[Blocks, Blocks]]) -> Row:
    without = [median(fmean(block[-COUNTED:]) for block in theirs) for _, theirs in found]
    ours = [median(ratios_of(*one)) * base for one, base in zip(found, without, strict=True)]
    ratios = [ratio for one in found for ratio in ratios_of(*one)]
    return Row(
        f"iteration, mean, {seen}",
        "s",
        Series("workbench", tuple(ours)),
        Series("the same ranks without", tuple(without)),
        goal=goal,
        note=f"{len(ratios)} pairs of {COUNTED} iterations",
        pairs=tuple(ratios),
    )


def _train(
    place: Place, kernel: Kernel, look: Callable[[], None], seen: str, pairs: int = PAIRS
) -> tuple[Blocks, Blocks]:
    times, address = place.path("times.json"), str(place.path("hold"))
    words = f"--pairs {pairs} --block {BLOCK} --free {FREE_BLOCKS} --times {times}"
    words += f" --socket {address}"
    words += " --control" * (seen == CONTROL)
    with _holding(place, address):
        if seen == FOLLOWED:
            kernel.run(f"%dist_train {SCRIPT} {words}", received=look)
        else:
            kernel.run(f"%dist_train --background {SCRIPT} {words}")
            _wait(look)
    if not times.exists():
        raise BenchmarkFailed("The script ended without having written its times.")
    written = json.loads(times.read_text(encoding="utf-8"))
    return written["with"], written["without"]


def _wait(look: Callable[[], None]) -> None:
    deadline = time.monotonic() + SECONDS
    with Store() as store:
        run = store.runs(limit=1)[0].wish.id
        while not store.run(run).fact.state.ended:
            if time.monotonic() > deadline:
                raise BenchmarkFailed(f"{SCRIPT.name} did not end within {SECONDS:.0f} s.")
            look()
            time.sleep(1)


@contextlib.contextmanager
def _holding(place: Place, address: str) -> Iterator[None]:
    """Hold what is not a rank whenever the script asks for it; in the end all is free."""
    with Store() as store:
        (wish,) = store.clusters()
        generation = store.cluster_fact(wish.name).generation
        ranks = {rank.pid for rank in store.ranks(wish.name, generation)}
    others = [process for process in place.processes() if process.pid not in ranks]
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen(1)
    thread = threading.Thread(target=_answer, args=(server, others), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.close()
        _all(others, psutil.Process.resume)


def _answer(server: socket.socket, others: Sequence[psutil.Process]) -> None:
    with contextlib.suppress(OSError):
        asking, _ = server.accept()
        with asking:
            while word := asking.recv(1):
                _all(others, psutil.Process.suspend if word == b"h" else psutil.Process.resume)
                asking.sendall(word)
    _all(others, psutil.Process.resume)


def _all(processes: Sequence[psutil.Process], do: Callable[[psutil.Process], None]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            do(process)
