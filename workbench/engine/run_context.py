"""The run that this rank executes, for the hooks and for ``workbench.report``."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workbench.core.run.rank_protocol import Progress
from workbench.engine.boundary import Boundaries
from workbench.engine.reporting.run_log import RunLog

if TYPE_CHECKING:
    from workbench.engine.boundary import Edge
    from workbench.engine.snapshot.run_snapshots import RunSnapshots


@dataclass
class RunContext:
    """One run on this rank, while it lasts.

    Args:
        leader: The lowest rank on this rank's node.
        snapshots: Of the run's trainings; None if none are saved.
        edge: Where the rank waits to continue another execution; None if it does not.
        closing: Called at the run's end, while its log still takes values.
        own_names: What the user's program reports by ``workbench.report``.
        in_loop: The number of the iteration that an elastic loop is in, from 1; 0 outside of one.
            The ends of its steps are then the only boundaries.
        is_restart: Whether a script starts again here, which loads its own state.
        world: The variables that ``torchrun`` would set here; empty without ranks.
        is_launched: Whether a launcher's function is being called, which may bring an address.
        sinks: What takes the output in place of the log, the last of them; see ``widget_displays``.
        has_strangers: Whether output of an earlier run's threads was left out of this one.
        seen_epoch: Epochs done, as the batches say that a loop without a trainer trains on.
    """

    log: RunLog
    boundaries: Boundaries = field(default_factory=Boundaries)
    iteration: int = 0
    source_name: str = ""
    leader: int = 0
    snapshots: RunSnapshots | None = None
    edge: Edge | None = None
    closing: list[Callable[[], None]] = field(default_factory=list)
    own_names: set[str] = field(default_factory=set)
    in_loop: int = 0
    seen_epoch: float = 0.0
    is_restart: bool = False
    has_strangers: bool = False
    world: Mapping[str, str] = field(default_factory=dict)
    is_launched: bool = False
    sinks: list[Any] = field(default_factory=list)
    _is_counted: bool = False
    _reported: set[str] = field(default_factory=set)

    def count_step(self, iteration: int, epoch: float) -> None:
        """Note that an optimizer's step has begun an iteration of a loop without a trainer.

        Args:
            epoch: Epochs done; 0 if unknown.
        """
        self._is_counted = True
        self._reported.clear()
        self.seen_epoch = epoch
        before, own = self.log.progress, self.own_names
        if self.in_loop:
            if "iteration" not in own:  # what a library logs of this step comes before its end
                self.iteration = self.in_loop
            return
        if "iteration" not in own:
            self.iteration = iteration
        self.log.progress = Progress(
            self.iteration,
            before.iterations_total,
            before.epoch if "epoch" in own else epoch,
            before.epochs_total,
        )

    def next_iteration(self) -> int:
        """Return the iteration of values that are reported without one."""
        if self.in_loop and "iteration" not in self.own_names:
            return self.in_loop
        return self.iteration + (not self._is_counted or "iteration" in self.own_names)

    def is_boundary(self, names: Collection[str]) -> bool:
        """Return whether a report of values is a boundary.

        It is not if it adds to the values of an optimizer's step, which was one: often one rank
        alone reports. The same name again, without a step between, is of another loop.
        """
        if self.in_loop:
            return False
        adds = self._is_counted and self._reported.isdisjoint(names)
        self._reported.update(names)
        return not adds

    def close(self) -> None:
        """Have the run's hooks report what remains."""
        while self.closing:
            self.closing.pop()()


_current: RunContext | None = None
_thread = threading.local()
"""Its ``run`` is the one in which a thread began; none in the main thread and in our own ones."""


def current() -> RunContext | None:
    """Return the present run, or None outside of one (such as in a script started by hand).

    In a thread that began in an earlier run, it is None as well.
    """
    began = getattr(_thread, "run", None)
    return _current if began is None or began is _current else None


def find_overlaid() -> RunContext | None:
    """Return the present run in a thread that began in an earlier one; elsewhere None."""
    return _current if current() is None else None


def bind_to_run(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function``, to be called in a thread as a part of this one's run, if it has one."""
    if (run := getattr(_thread, "run", None) or current()) is None:
        return function

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        before, _thread.run = getattr(_thread, "run", None), run
        try:
            return function(*args, **kwargs)
        finally:
            _thread.run = before

    return called


def set_current(run: RunContext | None) -> None:
    """Enter or leave a run."""
    global _current  # noqa: PLW0603  # a process hosts one rank, and a rank one run at a time
    _current = run
