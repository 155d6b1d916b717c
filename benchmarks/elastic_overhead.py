"""What `workbench.elastic` costs while nothing happens, and what its snapshots cost.

Short blocks of steps with and without it take turns in one process, so that a pair shares the
machine's mood and the process's memory layout. The ratio is the median of the pairs' ratios, which
a pair with a snapshot in it does not change; its 95 % interval comes from drawing pairs again
(bootstrap), and half of its width is what the benchmark can tell. What a snapshot costs is how much
longer the steps from it on take, while it is written, than those around.
"""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean, median

from workbench.core.run.model import RunKind, RunState
from workbench.core.run.rank_protocol import SnapshotSaved
from workbench.core.run.run_options import RunOptions
from workbench.requests.run import ask_run
from workbench.store import Store

from .figures import BenchmarkFailed, Row, Series, with_interval
from .place import Place, cluster

SCRIPTS = Path(__file__).parent / "scripts"
NAME = "default"
STEP_SECONDS = 0.01
STEPS, PAIRS = 10, 200  # of a round
FIRST_STEPS = 4
WARM_PAIRS = 10  # the first snapshot is among them
WRITE_SECONDS = 1.0  # from a snapshot on it is written
SNAPSHOT_STEPS = 6
SIZES = {"100 MB": 100_000_000, "1 GB": 1_000_000_000}
MOST_RATIO = 1.003
MOST_SHARE = 0.3  # %
STALL_SECONDS = 0.015  # of 100 MB
SECONDS = 900.0
TRAINER_SECONDS = 150.0
Step = tuple[bool, float, float]
"""Whether it was one of an elastic loop, and its seconds of wall and of processor time."""


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Measure blocks in turn in one cell per round, then snapshots of two sizes."""
    found: list[list[Step]] = []
    costs: list[tuple[float, float, float]] = []
    stalls: dict[str, list[float]] = {size: [] for size in SIZES}
    trainer: list[tuple[float, float, float]] = []
    has_trainer = importlib.util.find_spec("transformers") is not None
    with cluster(1), Store() as store:
        for number in range(1, rounds + 1):
            if has_trainer:
                target = place.path("trainer.jsonl")
                run = _run(store, "trainer_steps.py", target=str(target), seconds=TRAINER_SECONDS)
                saved = sorted(one.iteration for one in store.events.all(run, SnapshotSaved))
                trainer += snapshot_costs(steps_of(target), saved, 0)
                seen = ", ".join(f"{1e3 * a:.1f} ms in {c:.1f} s" for a, _, c in trainer)
                say(f"round {number} of {rounds}: snapshots of a Trainer: {seen}")
            target = place.path("steps.jsonl")
            options = {"steps": STEPS, "pairs": PAIRS, "seconds": STEP_SECONDS}
            run = _run(store, "paired_steps.py", target=str(target), **options)
            found.append(steps_of(target))
            saved = sorted(one.iteration for one in store.events.all(run, SnapshotSaved))
            # The second follows at once, as the steps before the first have slept.
            costs += snapshot_costs(found[-1], saved[1:])
            for size, nbytes in SIZES.items():
                run = _run(store, "one_snapshot.py", nbytes=nbytes, steps=SNAPSHOT_STEPS)
                stalls[size].append(_stall(store, run))
            ratios = (with_interval(_all(found, column)) for column in (1, 2))
            snapshots = ", ".join(f"{1e3 * a:.1f} ms in {c:.1f} s" for a, _, c in costs)
            first = ", ".join(f"{size} {1e3 * of[-1]:.3g} ms" for size, of in stalls.items())
            say(f"round {number} of {rounds}: wall {next(ratios)}, processor {next(ratios)}")
            say(f"snapshots: {snapshots}; first of {first}")
    return [
        _row("wall time", found, 1),
        _row("processor time of all threads", found, 2),
        *_shares(costs, "a loop"),
        *(_shares(trainer, "an unmodified transformers.Trainer") if has_trainer else []),
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


def ratios_of(steps: Sequence[Step], column: int, length: int = STEPS) -> list[float]:
    """Return the ratio of each pair of blocks, with an elastic loop to without.

    Args:
        column: 1 for wall time, 2 for processor time.
        length: Steps of a block.
    """
    blocked = [steps[at : at + length] for at in range(0, len(steps), length)]
    blocks = [(block[0][0], sum(one[column] for one in block)) for block in blocked]
    pairs = zip(blocks[::2], blocks[1::2], strict=True)
    return [one[1] / other[1] if one[0] else other[1] / one[1] for one, other in pairs]


def snapshot_costs(
    steps: Sequence[Step], saved: Sequence[int], unwritten: int = FIRST_STEPS
) -> list[tuple[float, float, float]]:
    """Return the wall and processor time that each snapshot but the first cost, and its interval.

    Args:
        saved: The iterations of snapshots, in order: each is taken as the next step begins.
        unwritten: How many first steps are not written down.
    """
    before_all = [-1] * unwritten
    elastic = before_all + [number for number, step in enumerate(steps) if step[0]]
    ends: list[float] = []
    for step in steps:
        ends.append(step[1] + (ends[-1] if ends else 0.0))
    found = []
    for before, at in pairwise(saved):
        if at >= len(elastic) or ends[-1] - ends[elastic[at]] < WRITE_SECONDS:
            continue
        first = elastic[at]
        last = next(n for n in range(first, len(ends)) if ends[n] - ends[first] >= WRITE_SECONDS)
        near = [*steps[max(0, first - 200) : first], *steps[last : last + 200]]
        wall, processor = (
            sum(step[column] for step in steps[first:last])
            - (last - first) * mean(step[column] for step in near)
            for column in (1, 2)
        )
        found.append((wall, processor, ends[first] - ends[elastic[before]]))
    return found


def _all(rounds: Sequence[Sequence[Step]], column: int) -> list[float]:
    return [ratio for steps in rounds for ratio in ratios_of(steps, column)[WARM_PAIRS:]]


def _row(what: str, rounds: Sequence[Sequence[Step]], column: int) -> Row:
    """Return the steps of each round, and the ratios of all pairs."""
    without = [median(step[column] for step in steps if not step[0]) for steps in rounds]
    ours = [
        median(ratios_of(steps, column)[WARM_PAIRS:]) * one
        for steps, one in zip(rounds, without, strict=True)
    ]
    ratios = _all(rounds, column)
    return Row(
        f"step in a loop of workbench.elastic, {what}",
        "s",
        Series("workbench.elastic", tuple(ours)),
        Series("the same loop without", tuple(without)),
        goal=MOST_RATIO,
        note=f"{len(ratios)} pairs of {STEPS} steps",
        pairs=tuple(ratios),
    )


def _shares(costs: Sequence[tuple[float, float, float]], of: str) -> list[Row]:
    """Return the share of the time that snapshots at the default interval cost.

    A single round may be over before a third one is saved; then it is not known.
    """
    if not costs:
        note = "no snapshot of a usual step was saved; --rounds 3 takes longer"
        return [Row(f"snapshots of 100 MB of {of}", "%", None, note=note)]
    seconds = mean(cost[2] for cost in costs)
    return [
        Row(
            f"snapshots of 100 MB of {of} at the default interval, share of {what}",
            "%",
            Series("1 rank", tuple(100 * cost[column] / seconds for cost in costs)),
            limit=MOST_SHARE if column == 0 else None,
            note=f"{len(costs)} snapshots, one in {seconds:.1f} s",
        )
        for what, column in (("time", 0), ("one core", 1))
    ]


def steps_of(target: Path) -> list[Step]:
    """Return the steps that a cell has written down."""
    lines = (json.loads(line) for line in target.read_text(encoding="utf-8").splitlines())
    return [(bool(elastic), wall, processor) for elastic, wall, processor in lines]


def _run(store: Store, script: str, **parameters: object) -> str:
    """Run a cell to its end, and return its id."""
    source = (SCRIPTS / script).read_text(encoding="utf-8")
    run = ask_run(
        store,
        kind=RunKind.CELL,
        source=source,
        cluster=NAME,
        options=RunOptions(parameters=tuple(parameters.items())),
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
    if not (saved := store.events.all(run, SnapshotSaved)):
        raise BenchmarkFailed("No snapshot was saved.")
    return saved[0].seconds
