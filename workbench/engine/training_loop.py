"""Report the values, step times and boundaries of a training loop that is written by hand.

Hooks tell it of batches, backward passes and optimizers' steps; it knows no framework.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from workbench.core.performance.step_sampling import Instant, LoopTime
from workbench.core.run.rank_protocol import HandwrittenLoop
from workbench.core.run.training_steps import EpochCounter, StepCounter, StepLoss
from workbench.engine.run_context import RunContext
from workbench.engine.timing.mpi_calls import watch
from workbench.engine.timing.step_time import NOTHING_EXCHANGED, Exchanged, StepTime

FETCH_SECONDS = 0.25
_NONE: Mapping[str, Any] = {}
Fetch = Callable[[Sequence[Any]], Sequence[float]]


class OwnExchange(Protocol):
    """The exchange of gradients that a framework does by itself."""

    def step(self) -> Exchanged:
        """Return what it did in the step that has ended."""
        ...

    def shapes(self) -> Sequence[tuple[int, ...]]:
        """Return the shapes of the model's gradients; empty if unknown."""
        ...


class NoExchange:
    """That of a loop which exchanges by MPI, or not at all."""

    def step(self) -> Exchanged:
        """Return that nothing was exchanged."""
        return NOTHING_EXCHANGED

    def shapes(self) -> Sequence[tuple[int, ...]]:
        """Return no shapes."""
        return ()


class Pass:
    """One pass over the batches of a source.

    Args:
        source: Identifies the data.
        length: Returns the number of batches, 0 if unknown; asked once the loop trains on them.
        batch: Examples of a batch; 0 if unknown.
        repeats: Whether the source begins again by itself, in the same pass.
        epoch: Epochs before this one, as the program has set it in its sampler; 0 if it has not.
    """

    __slots__ = ("_length", "_measure", "batch", "epoch", "number", "position", "repeats", "source")
    _count = 0

    def __init__(
        self,
        source: object,
        length: Callable[[], int],
        batch: int,
        *,
        repeats: bool = False,
        epoch: int = 0,
    ) -> None:
        Pass._count += 1
        self.epoch = epoch
        self.number = Pass._count
        self.source = source
        self.batch = batch
        self.repeats = repeats
        self.position = 0.0
        self._measure = length
        self._length = -1

    @property
    def length(self) -> int:
        """The number of batches; 0 if unknown."""
        if self._length < 0:
            self._length = self._measure()
        return self._length


def now() -> Instant:
    """Return the present point in time of the main thread."""
    return Instant(time.perf_counter(), watch.seconds)


class TrainingLoop:
    """One run's training loops, one after another.

    Args:
        fetch: Returns the numbers of scalars that are on a device.
        exchange: Of gradients, by the framework itself.
    """

    def __init__(self, run: RunContext, fetch: Fetch, exchange: OwnExchange) -> None:
        self._run = run
        self._fetch_numbers, self._exchange = fetch, exchange
        self._counted_to = 0
        self._counter, self._epochs, self._loss = StepCounter(), EpochCounter(), StepLoss()
        self._time = LoopTime(now())
        self._timing: StepTime | None = None
        self._optimizers = weakref.WeakKeyDictionary[Any, tuple[int, str]]()
        self._numbered, self._labels = 0, set[str]()
        self._given: Pass | None = None  # the source of a batch that may be trained on
        self._examples = 0
        self._held: tuple[int, str, int, float, dict[str, Any]] | None = None
        self._seen: set[int] = set()
        self._on_device: list[tuple[str, int, float, Any]] = []
        self._fetched = time.monotonic()
        self._begins = False
        self.steps = 0
        self.offer = ""
        """The line that would save the loop."""

    def fetched(self, given: Pass, asked: Instant) -> None:
        """Note that the loop got a batch which it asked for at ``asked``."""
        if not given.repeats:
            given.position += 1
        self._given = given
        self._time.fetched(asked, now())

    def backward(self) -> None:
        """Note that a backward pass from a loss begins: the latest batch is trained on."""
        self._time.backward()
        if (given := self._given) is not None:
            self._given = None
            if self._run.is_restart and not self.steps and given.epoch and given.length:
                # A script that has loaded its state continues in the epoch that it sets there.
                self._counter.iteration = given.epoch * given.length
                self._epochs.begin_at(given.epoch)
            self._epochs.trained(
                given.source, given.length, given.number, given.position, repeats=given.repeats
            )
            self._examples += given.batch

    def add_loss(self, value: Any) -> None:
        """Add the loss of a backward pass: a number, or a scalar on a device."""
        self._loss.add(value)

    @property
    def has_losses(self) -> bool:
        """Whether losses wait for a step, so that ``clear`` has something to do."""
        return self._loss.is_pending

    def clear(self, parameters: Iterable[int]) -> None:
        """Note that gradients are thrown away, of parameters that are given by their ``id``."""
        self._loss.clear(parameters)

    def begin_step(self) -> None:
        """Note that an optimizer's step begins."""
        self._loss.begin_step()

    def count(self, optimizer: Any, name: Callable[[], str]) -> bool:
        """Count the step of an optimizer that has ended; return whether it began an iteration.

        Args:
            name: Returns what to call the optimizer beside others; empty for its number.
        """
        self.steps += 1
        number = self._number(optimizer, name)[0]
        self._begins = self._counter.step(number)
        if self._begins:
            self._epochs.begin_iteration()
            self._run.count_step(self._counter.iteration, self._epochs.epoch)
        return self._begins

    def end_step(
        self,
        optimizer: Any,
        rate: Any,
        values: Mapping[str, Any] = _NONE,
        parameters: Callable[[], Collection[int]] = tuple,
    ) -> None:
        """Report the step that was counted last.

        Args:
            rate: The optimizer's learning rate: a number, a scalar on a device, or None.
            values: What else is to be reported of it.
            parameters: Returns the ``id`` of those that the optimizer changes.
        """
        number, label = self._number(optimizer)
        iteration = self._iteration
        loss = self._loss.end_step(number, parameters)
        self._show_held()
        if loss is not None or self._begins or values:
            found = {"loss": loss, "lr": rate} | dict(values)
            self._held = number, label, iteration, time.time(), found
            # Only the next step tells whether a new optimizer is the main one, and whether the
            # training reports its first iteration by itself, which counts.
            if number in self._seen:
                self._show_held()
            self._seen.add(number)
        self._measure(iteration)

    def fetch(self) -> None:
        """Report the values that wait."""
        self._show_held()
        self._fetch(wait=True)

    def finish(self) -> None:
        """Report what remains at the end of the run."""
        self.fetch()
        if self._timing is not None:
            self._timing.finish(self._counted_to)

    @property
    def _iteration(self) -> int:
        """The present iteration; an elastic loop counts it, also those of earlier attempts."""
        self._counted_to = self._run.in_loop or self._counter.iteration
        return self._counted_to

    def _number(self, optimizer: Any, name: Callable[[], str] = str) -> tuple[int, str]:
        """Return the optimizer's number, and what its values are called if it is not the main."""
        found = self._optimizers.get(optimizer)
        if found is None:
            self._numbered += 1
            label = name()
            if not label or label in self._labels:
                label = str(self._numbered)
            self._labels.add(label)
            found = self._optimizers[optimizer] = self._numbered, label
        return found

    def _measure(self, iteration: int) -> None:
        parts = self._time.step(now())
        if self._timing is None:  # the first step is mostly start-up, and is not measured
            leader = self._run.leader
            self._timing = StepTime(
                self._run.log, leader=leader, batch=self._examples, shapes=self._exchange.shapes
            )
            self._run.log.tell(HandwrittenLoop(self.offer))
            return
        self._timing.spend(parts, self._exchange.step())
        if self._begins:
            self._timing.step(iteration)

    def _show_held(self) -> None:
        if self._held is not None:
            number, label, iteration, at, values = self._held
            self._held = None
            prefix = "" if self._counter.is_main(number) else f"{label}/"
            named = {f"{prefix}{name}": value for name, value in values.items()}
            self._report(iteration, at, named)

    def _report(self, iteration: int, at: float, values: dict[str, Any]) -> None:
        plain = []
        for name, value in values.items():
            if value is None or name in self._run.own_names:
                continue
            if isinstance(value, float | int):
                plain.append((name, float(value)))
            else:
                self._on_device.append((name, iteration, at, value))
        if plain:
            self._run.log.add_all(iteration, tuple(plain), at)
        if self._on_device:
            self._fetch()

    def _fetch(self, *, wait: bool = False) -> None:
        """Fetch values from devices, several at a time: each time waits for the device."""
        if not wait and time.monotonic() - self._fetched < FETCH_SECONDS:
            return
        pending, self._on_device = self._on_device, []
        numbers = self._fetch_numbers([value for *_, value in pending])
        for (name, iteration, at, _), number in zip(pending, numbers, strict=True):
            if name not in self._run.own_names:
                self._run.log.add_all(iteration, ((name, number),), at)
        self._fetched = time.monotonic()
