"""Time the steps of a training that is one function, for programs that exchange in it.

``… [LONGER]``: by how much the seconds of a step are multiplied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.engine.programs.world import arguments, folder, rank, worlds
from workbench.engine.reporting.run_log import RunLog
from workbench.frameworks.chainer.trainer_time import TrainerTime

LONGER = float(arguments[0]) if arguments else 1.0
comm: Any = worlds.offer(0)
log = RunLog("260101-000000-arun", rank, folder / f"log-{rank}" / "log")
timing = TrainerTime(log)


class Updater:
    """As much of Chainer's updater as is timed."""

    def __init__(self, step: Callable[[], None]) -> None:
        self._step = step

    def update(self) -> None:
        self._step()


def train(steps: int, step: Callable[[], None]) -> dict[str, float]:
    """Train; return the last value of each name that this rank reports."""
    updater = Updater(step)
    with timing.installed(updater):
        for iteration in range(1, steps + 1):
            updater.update()
            timing.step(iteration)
    timing.finish(steps)
    values = (one for one in log._samples if isinstance(one, tuple))
    return {name: value for _, _, pairs in values for name, value in pairs}
