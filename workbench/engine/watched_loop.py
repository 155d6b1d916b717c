"""Watch one run's hand-written loop: a defect of ours ends its curves, and never the training."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import Any, Generic, TypeVar

from workbench.core.run.rank_protocol import OFFER_CHARACTERS
from workbench.engine.framework import frameworks
from workbench.engine.run_context import RunContext, current
from workbench.engine.training_loop import Fetch, NoExchange, OwnExchange, TrainingLoop

_MAIN = threading.main_thread().ident
# Names that say nothing about which optimizer it is.
_GENERIC = frozenset({"self", "opt", "optim", "optimizer"})


def watchable_run() -> RunContext | None:
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

    def __init__(self, run: RunContext, fetch: Fetch, exchange: OwnExchange | None = None) -> None:
        self.run = run
        self.loop = TrainingLoop(run, fetch, exchange or NoExchange())
        self.is_broken = False
        run.closing.append(lambda: self.do(self.loop.finish))
        run.log.fetching.append(lambda: self.do(self.loop.fetch))

    def do(self, function: Callable[..., Any], *args: Any) -> None:
        """Call ``function``; after an error, which is written once, nothing more is called."""
        if self.is_broken:
            return
        try:
            function(*args)
        except Exception as error:  # noqa: BLE001  # a training is worth more than its curve
            self._end(error)

    def cleared(self, parameters: Callable[[], Iterable[Any]]) -> None:
        """Note that gradients are thrown away, of what ``parameters`` returns."""
        if self.loop.has_losses:
            self.do(lambda: self.loop.clear(id(one) for one in parameters()))

    def ended_step(
        self,
        optimizer: Any,
        name: Callable[[Any], str],
        rate: Callable[[Any], Any],
        values: Callable[[], Mapping[str, Any]] = dict,
        *,
        parameters: Callable[[Any], Iterable[Any]] = lambda _: (),
    ) -> None:
        """Report an optimizer's step that has ended; the run may stop here.

        Args:
            name: Returns what to call the optimizer beside others.
            rate: Returns its learning rate.
            values: Returns what else is to be reported of the step.
            parameters: Returns what it changes.
        """
        begins = True  # also after an error, so that this rank stops where the others do
        try:
            begins = self.loop.count(optimizer, functools.partial(name, optimizer))
        except Exception as error:  # noqa: BLE001  # likewise
            self._end(error)
        self.do(
            lambda: self.loop.end_step(
                optimizer,
                rate(optimizer),
                values(),
                lambda: [id(one) for one in parameters(optimizer)],
            )
        )
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


Loop = TypeVar("Loop", bound=WatchedLoop)


class LoopWatch(Generic[Loop]):
    """The watched loop of the present run, which each run has for itself.

    Args:
        make: Makes that of a run.
    """

    def __init__(self, make: Callable[[RunContext], Loop]) -> None:
        self._make = make
        self._loop: Loop | None = None

    def present(self) -> Loop | None:
        """Return it; None outside of a run, in other threads, and inside of a trainer."""
        if (run := watchable_run()) is None:
            return None
        if self._loop is None or self._loop.run is not run:
            self._loop = self._make(run)
            run.closing.append(self._forget)
        return self._loop

    def _forget(self) -> None:
        self._loop = None


def name_of(optimizer: Any) -> str:
    """Return what the program calls an optimizer; empty if that says nothing.

    That is a variable, or else an attribute or a key of what a variable has, or a place in it.
    """
    scopes = _scopes()
    for search in (_variable, _attribute, _place):
        for variables in scopes:
            if name := search(variables, optimizer):
                return name
    return ""


def elastic_line(optimizer: Any, loader: Any, count_shared: Callable[[Any], int]) -> str:
    """Return the line that saves a loop, with the program's names; empty where it has none.

    Args:
        loader: What gives the loop its batches.
        count_shared: Returns how many parameters of ``optimizer`` a value has, if it is a model.
    """
    variables: dict[str, Any] = {}
    for scope in _scopes():
        variables = scope | variables  # what is nearest to the step comes first
    names = {name: one for name, one in variables.items() if not name.startswith("_")}
    shared = {name: count_shared(one) for name, one in names.items()}
    model = max(shared, key=lambda name: shared[name], default="")
    optimizers = [name for name, one in names.items() if one is optimizer]
    schedulers = [
        name
        for name, one in names.items()
        if _inside(one).get("optimizer") is optimizer and hasattr(type(one), "state_dict")
    ]
    data = [name for name, one in names.items() if one is loader]
    if not (shared.get(model) and optimizers and data):
        return ""
    saved = [model, optimizers[0], *schedulers[:1]]
    state = ", ".join(f'"{name}": {name}' for name in saved)
    line = f"for step in workbench.elastic({{{state}}}, data={data[0]}, epochs=…):"
    return line if len(line) <= OFFER_CHARACTERS else ""


def _scopes() -> list[dict[str, Any]]:
    """Return the variables of the functions that have called, the innermost first."""
    callers: list[FrameType] = []
    frame: FrameType | None = sys._getframe(2)
    # The variables of what is between a program and our hooks say nothing either.
    others = {"workbench", *(name for one in frameworks() for name in one.packages)}
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in others:
            callers.append(frame)
        frame = frame.f_back
    return [{**one} for caller in callers for one in (caller.f_locals, caller.f_globals)]


def _variable(variables: Mapping[str, Any], optimizer: Any) -> str:
    return next((name for name, one in variables.items() if one is optimizer and _says(name)), "")


def _attribute(variables: Mapping[str, Any], optimizer: Any) -> str:
    for name, owner in variables.items():
        for key, one in _inside(owner).items():
            if one is not optimizer:
                continue
            if isinstance(key, str) and _says(key):
                return key
            # What wraps it has its methods, as the optimizers of Accelerate.
            if hasattr(type(owner), "zero_grad") and _says(name):
                return name
    return ""


def _place(variables: Mapping[str, Any], optimizer: Any) -> str:
    for name, several in (*variables.items(), *_inside(variables.get("self")).items()):
        if isinstance(several, dict):
            if key := _attribute({name: several}, optimizer):
                return key
        elif isinstance(several, list | tuple) and _says(name):
            for number, one in enumerate(several):
                if one is optimizer:
                    return f"{name}[{number}]"
    return ""


def _inside(owner: Any) -> dict[Any, Any]:
    """Return a dictionary's entries, or the attributes that an object has for itself."""
    if isinstance(owner, dict):
        return {**owner}
    try:  # without its own way to give them, which may do anything
        return {**object.__getattribute__(owner, "__dict__")}
    except (AttributeError, TypeError):
        return {}


def _says(name: str) -> bool:
    return name not in _GENERIC and not name.startswith("_")
