"""What `workbench.elastic` costs while nothing happens, and how long a snapshot stalls a step.

Blocks of steps with and without it take turns in one process, so that a pair shares the machine's
mood and the process's memory layout. The share is that of sums over all pairs; its 95 % interval
comes from drawing pairs again (bootstrap), and half of its width is what the benchmark can tell.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from workbench.core.run.model import RunKind, RunState
from workbench.core.run.snapshots import NBYTES_NAME, SECONDS_NAME
from workbench.requests.run import ask_run
from workbench.store import Store

from .figures import BenchmarkFailed, Row, Series
from .place import Place, cluster

SCRIPTS = Path(__file__).parent / "scripts"
NAME = "default"
STEPS, PAIRS = 100, 12  # of a round; a block takes about a second
SNAPSHOT_STEPS = 20
SIZES = {"100 MB": 100_000_000, "1 GB": 1_000_000_000}
MOST_RATIO = 1.003
STALL_SECONDS = 0.015  # of 100 MB
RESAMPLES = 2_000
SECONDS = 900.0
Pair = tuple[float, float]
"""Seconds of a block with and without it."""


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Measure blocks in turn in one cell per round, then snapshots of two sizes."""
    wall: list[list[Pair]] = []
    processor: list[list[Pair]] = []
    stalls: dict[str, list[float]] = {size: [] for size in SIZES}
    snapshots = 0
    with cluster(1), Store() as store:
        for number in range(1, rounds + 1):
            target = place.path("blocks.jsonl")
            run = _run(store, "paired_steps.py", target=str(target), steps=STEPS, pairs=PAIRS)
            snapshots += sum(1 for p in store.points(run) if p.name == SECONDS_NAME)
            for pairs, column in ((wall, 2), (processor, 3)):
                pairs.append(pairs_of(target, column))
            for size, nbytes in SIZES.items():
                run = _run(store, "one_snapshot.py", nbytes=nbytes, steps=SNAPSHOT_STEPS)
                stalls[size].append(_stall(store, run))
            say(
                f"round {number} of {rounds}: wall {_shown(wall)}, processor {_shown(processor)}, "
                + ", ".join(f"{size} {1000 * of[-1]:.3g} ms" for size, of in stalls.items())
            )
    return [
        _row("wall time", wall, snapshots),
        _row("processor time of all threads", processor, snapshots),
        *(
            Row(
                f"stall of the first snapshot of {size}",
                "s",
                Series("a step", tuple(stalls[size])),
                limit=STALL_SECONDS * nbytes / SIZES["100 MB"],
                note="1 rank",
            )
            for size, nbytes in SIZES.items()
        ),
    ]


def interval(pairs: Sequence[Pair], resamples: int = RESAMPLES) -> tuple[float, float, float]:
    """Return the ratio of the sums of pairs, and its 95 % interval by drawing pairs again."""
    chance = Random(0)
    found = sorted(
        _ratio([chance.choice(pairs) for _ in range(len(pairs))]) for _ in range(resamples)
    )
    return _ratio(pairs), found[int(0.025 * resamples)], found[int(0.975 * resamples)]


def _ratio(pairs: Sequence[Pair]) -> float:
    return sum(one for one, _ in pairs) / sum(other for _, other in pairs)


def _row(what: str, rounds: Sequence[Sequence[Pair]], snapshots: int) -> Row:
    """Return the mean steps of each round; the note has the ratio of all and its interval."""
    steps = [
        tuple(sum(pair[column] for pair in pairs) / len(pairs) / STEPS for pairs in rounds)
        for column in (0, 1)
    ]
    pairs = [pair for one in rounds for pair in one]
    ratio, low, high = interval(pairs)
    return Row(
        f"step in a loop of workbench.elastic with snapshots of 100 MB, {what}",
        "s",
        Series("workbench.elastic", steps[0]),
        Series("the same loop without", steps[1]),
        goal=MOST_RATIO,
        note=f"{len(pairs)} pairs of {STEPS} steps, {snapshots} snapshots; ratio of the sums "
        f"{ratio:.4f}, 95 % interval {low:.4f} to {high:.4f}: resolution {50 * (high - low):.2g} %",
    )


def _shown(rounds: Sequence[Sequence[Pair]]) -> str:
    pairs = [pair for one in rounds for pair in one]
    return "{:.4f} ({:.4f} to {:.4f})".format(*interval(pairs))


def pairs_of(target: Path, column: int) -> list[Pair]:
    """Return the seconds of each pair of blocks but the first, which warms up."""
    lines = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()][2:]
    found: list[Pair] = []
    for first, second in zip(lines[::2], lines[1::2], strict=True):
        one, other = (first, second) if first[0] else (second, first)
        found.append((one[column], other[column]))
    return found


def _run(store: Store, script: str, **parameters: object) -> str:
    """Run a cell to its end, and return its id."""
    source = (SCRIPTS / script).read_text(encoding="utf-8")
    run = ask_run(
        store, kind=RunKind.CELL, source=source, cluster=NAME, parameters=tuple(parameters.items())
    ).id
    deadline = time.monotonic() + SECONDS
    while not store.run(run).fact.state.ended:
        if time.monotonic() > deadline:
            raise BenchmarkFailed(f"{script} did not end within {SECONDS:.0f} s.")
        time.sleep(0.2)
    fact = store.run(run).fact
    if fact.state is not RunState.FINISHED:
        raise BenchmarkFailed(f"{script} is {fact.state}: {fact.message}")
    return run


def _stall(store: Store, run: str) -> float:
    points = store.points(run)
    if not any(point.name == NBYTES_NAME for point in points):
        raise BenchmarkFailed("No snapshot was saved.")
    return next(point.value for point in points if point.name == SECONDS_NAME)
