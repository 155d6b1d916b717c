"""Watch one run's hand-written loop: a defect of ours ends its curves, and never the training."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any

from workbench.engine.run_context import Current, current
from workbench.engine.training_loop import Fetch, NoExchange, OwnExchange, TrainingLoop

_MAIN = threading.main_thread().ident


def watchable_run() -> Current | None:
    """Return the present run, if its loop has no trainer; None in other threads."""
    run = current()
    # A trainer that counts iterations itself is hooked on its own.
    if run is None or run.log.progress_source is not None or threading.get_ident() != _MAIN:
        return None
    return run


class WatchedLoop:
    """The loop of one run, as hooks of a framework see it.

    Args:
        fetch: Returns the numbers of scalars that are on a device.
        exchange: Of gradients, by the framework itself; None for none.
    """

    def __init__(self, run: Current, fetch: Fetch, exchange: OwnExchange | None = None) -> None:
        self.run = run
        self.loop = TrainingLoop(run, fetch, exchange or NoExchange())
        self.is_broken = False
        run.closing.append(lambda: self.do(self.loop.finish))

    def do(self, function: Callable[..., Any], *args: Any) -> None:
        """Call ``function``; after an error, which is written once, nothing more is called."""
        if self.is_broken:
            return
        try:
            function(*args)
        except Exception as error:  # noqa: BLE001  # a training is worth more than its curve
            self._end(error)

    def ended_step(
        self,
        optimizer: Any,
        name: Callable[[Any], str],
        rate: Callable[[Any], Any],
        values: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        """Report an optimizer's step that has ended; the run may stop here.

        Args:
            name: Returns what to call the optimizer beside others.
            rate: Returns its learning rate.
            values: Returns what else is to be reported of the step.
        """
        begins = True  # also after an error, so that this rank stops where the others do
        try:
            begins = self.loop.count(optimizer, functools.partial(name, optimizer))
        except Exception as error:  # noqa: BLE001  # likewise
            self._end(error)
        self.do(lambda: self.loop.end_step(optimizer, rate(optimizer), values()))
        if begins and not self.run.in_loop:
            self.run.boundaries.passed(self.run.log.progress.epoch)
            self.run.boundaries.check()

    def _end(self, error: Exception) -> None:
        if not self.is_broken:
            self.is_broken = True
            self.run.log.note(
                "stderr",
                f"workbench: this loop's curves and step times end here ({error!r:.500}); "
                "the training continues, and workbench.report works.\n",
            )
