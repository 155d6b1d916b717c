"""Make every Chainer ``Trainer`` report, record step times and stop at boundaries."""

from __future__ import annotations

import functools
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from typing import TYPE_CHECKING, Any

import numpy

from workbench.core.run.rank_protocol import Progress
from workbench.engine.boundary import RunStopped
from workbench.engine.run_context import RunContext, current
from workbench.frameworks.chainer.gradient_noise import NoiseScaleMonitor
from workbench.frameworks.chainer.loop import pause_chainer_hooks
from workbench.frameworks.chainer.plain_values import training_length
from workbench.frameworks.chainer.trainer_time import TrainerTime

if TYPE_CHECKING:
    from workbench.frameworks.chainer.saved_trainer import SavedTrainer

EXTENSION_NAME = "workbench"
LAST = -1_000  # Chainer runs extensions by falling priority; readers have 100.
DEVICE_SECONDS = 0.25
ROUNDING = 1e-6
# The first and the last text of ``Trainer.run`` of Chainer 7.8.1 about an error in its loop.
_BEGINS, _ENDS = "Exception in main training loop", "Will finalize trainer extensions"
_PLAIN = (numpy.ndarray, numpy.float32, numpy.float64)


def wrap_trainer(module: Any) -> None:
    """Wrap ``Trainer.run``."""
    if not hasattr(module.Trainer.run, "__wrapped__"):
        module.Trainer.run = _wrap_run(module.Trainer.run)


def wrap_checkpointer(module: Any) -> None:
    """Let ChainerMN's checkpointer load nothing where a run resumes from a snapshot.

    It is older than the snapshot, and cannot be loaded on another number of ranks.
    """
    kind = module._MultiNodeCheckpointer
    original = kind.maybe_load
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def maybe_load(
        checkpointer: Any, trainer: Any, optimizer: Any = None, path: str | None = None
    ) -> None:
        here = current()
        if here is None or here.snapshots is None or not here.snapshots.resumes:
            original(checkpointer, trainer, optimizer, path)
        elif checkpointer.path is None:
            checkpointer.path = path if path is not None else trainer.out

    kind.maybe_load = maybe_load


def _wrap_run(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def run(trainer: Any, *args: Any, **kwargs: Any) -> None:
        from workbench.engine.timing.mpi_calls import is_echo  # which initializes MPI

        here = current()
        # A trainer inside of an elastic loop, or of an extension, is a part of that one's step.
        is_inside = here is not None and (here.in_loop or here.log.progress_source is not None)
        if here is None or is_inside or EXTENSION_NAME in trainer._extensions:
            original(trainer, *args, **kwargs)
            return
        training = None
        if here.snapshots is not None:
            from workbench.frameworks.chainer.saved_trainer import begin_saved

            training = begin_saved(here.snapshots, trainer)
        here.iteration = trainer.updater.iteration
        extension = ReportExtension(here, trainer)
        # `bool` is true of a trainer, and costs less than a function of ours.
        trainer.extend(extension, name=EXTENSION_NAME, trigger=bool, priority=LAST)
        trainer.stop_trigger = _OrStop(trainer.stop_trigger, here, training)
        if training is not None:
            training.pause = extension.timing.pause
        with (
            pause_chainer_hooks(),  # first: the others keep the functions that they find
            extension.timing.installed(trainer.updater),
            extension.noise.installed(trainer.updater),
            nullcontext() if training is None else training.weight_gradients(),
            without_echoes(is_echo),
        ):
            try:
                original(trainer, *args, **kwargs)
            finally:
                # Chainer finalizes no extensions where one of them cannot be initialized.
                here.log.progress_source = None
        if here.boundaries.due or (training is not None and training.was_stopped):
            raise RunStopped(f"stopped at iteration {here.iteration}")

    return run


class _OrStop:
    """A stop trigger that also fires if the run must stop at this boundary.

    Between two iterations it is the only part of a training that runs, so snapshots are saved here.
    """

    def __init__(self, original: Any, run: RunContext, training: SavedTrainer | None) -> None:
        self._original = original
        self._boundaries = run.boundaries
        self._training = training

    def __call__(self, trainer: Any) -> bool:
        is_due = self._boundaries.is_asked and self._boundaries.due
        if self._training is not None:
            return self._training.ends(self._original, is_due=is_due)
        return is_due or self._original(trainer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


class ReportExtension:
    """Reports all observed values and the progress of each iteration."""

    def __init__(self, run: RunContext, trainer: Any) -> None:
        self._run = run
        self._updater = trainer.updater
        self._on_device: list[tuple[str, int, Any]] = []
        self._fetched = time.monotonic()
        self._iterations_total, self._epochs_total = training_length(trainer.stop_trigger)
        self._look()
        batch = _batch(trainer.updater)
        self.timing = TrainerTime(run.log, leader=run.leader, batch=batch)
        # Gradients of unequal shares are weighted, and so are no samples of one batch size.
        self.noise = NoiseScaleMonitor(run.log, batch if _is_even(trainer.updater) else 0)
        run.log.progress_source = self.progress
        run.log.fetching.append(self.fetch)

    def __call__(self, trainer: Any) -> None:
        """Report one iteration."""
        updater, run = trainer.updater, self._run
        run.iteration = iteration = updater.iteration
        values = []
        for name, value in trainer.observation.items():
            number = value if type(value) in _PLAIN else getattr(value, "array", value)
            if type(number) in _PLAIN:
                if number.size == 1:
                    values.append((name, float(number)))
            else:
                self._note(name, iteration, number)
        run.log.add_all(iteration, values)
        if self._on_device:
            self._fetch()
        boundaries = run.boundaries
        # An iterator takes several calls to say where it is. Between two looks it need not, unless
        # the run is to stop where an epoch ends.
        if self.timing.step(iteration) or boundaries.is_asked:
            self._look()
        boundaries.passed(self._done[1])

    def finalize(self) -> None:
        """Fetch the remaining values from the device at the end of the training."""
        self.fetch()
        self._run.log.fetching.remove(self.fetch)
        self.timing.finish(self._run.iteration)
        self._look()
        self._run.log.progress = self.progress()

    def progress(self) -> Progress:
        """Return the progress at the last look; may be called from another thread."""
        iteration, epoch = self._done
        return Progress(iteration, self._iterations(iteration, epoch), epoch, self._epochs_total)

    def _look(self) -> None:
        # Within an iteration the two differ by a batch, and so would their total.
        self._done = self._updater.iteration, getattr(self._updater, "epoch_detail", 0.0)

    def _iterations(self, iteration: int, epoch: float) -> int:
        if self._epochs_total and epoch:
            left = self._epochs_total / epoch - 1
            return iteration + max(0, math.ceil(iteration * left - ROUNDING))
        return self._iterations_total

    def _note(self, name: str, iteration: int, value: Any) -> None:
        if hasattr(value, "__cuda_array_interface__"):
            # float() would wait for the device; several values are fetched at a time instead.
            self._on_device.append((name, iteration, value))
            return
        try:
            self._run.log.add(name, iteration, float(value))
        except (TypeError, ValueError):
            return  # not a number: extensions may observe anything

    def fetch(self) -> None:
        """Report the values that are still on the device."""
        self._fetch(now=True)

    def _fetch(self, *, now: bool = False) -> None:
        if now or time.monotonic() - self._fetched >= DEVICE_SECONDS:
            for name, iteration, value in self._on_device:
                if value.size == 1:
                    self._run.log.add(name, iteration, float(value))
            self._on_device.clear()
            self._fetched = time.monotonic()


def _batch(updater: Any) -> int:
    """Return the examples of a step on this rank; 0 if the updater does not have them."""
    size = getattr(_main_iterator(updater), "batch_size", 0)
    return size if isinstance(size, int) else 0


def _is_even(updater: Any) -> bool:
    """Return whether all ranks have as many examples in a step."""
    sampler = getattr(_main_iterator(updater), "order_sampler", None)
    return bool(getattr(sampler, "is_even", True))


def _main_iterator(updater: Any) -> Any:
    iterators = getattr(updater, "_iterators", None)
    return iterators.get("main") if isinstance(iterators, dict) else None


class _WithoutEchoes:
    """A stream without these messages; all else of it is the original's."""

    def __init__(self, stream: Any, is_echo: Callable[[BaseException], bool]) -> None:
        self._stream = stream
        self._is_echo = is_echo
        self._is_muted = False

    def write(self, text: str) -> int:
        if text.startswith(_BEGINS):
            error = sys.exc_info()[1]
            self._is_muted = error is not None and self._is_echo(error)
        elif self._is_muted and text.startswith(_ENDS):
            self._is_muted = False
            return len(text)
        return len(text) if self._is_muted else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def without_echoes(is_echo: Callable[[BaseException], bool]) -> Iterator[None]:
    """Leave messages about echoes out of the standard error stream.

    The failed rank reports its own error, or a lost one none; the others' are of no use.

    Args:
        is_echo: Whether an error only follows from another rank's failure.
    """
    stream: Any = _WithoutEchoes(sys.stderr, is_echo)
    with redirect_stderr(stream):
        yield
