"""Count the iterations and epochs of a training loop that is written by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable


class StepCounter:
    """Counts iterations by the steps of optimizers, each of which steps once in an iteration.

    So two optimizers that step in turn, as a GAN's do, count once for both; if one of them steps
    more often, its steps are the iterations. An optimizer that first steps later belongs to another
    training, which continues the iterations.

    The main optimizer is the one that begins iterations; its values have no prefix.
    """

    def __init__(self) -> None:
        self.iteration = 0
        self._known: set[int] = set()
        self._stepped: set[int] = set()
        self._begun_by_new = False
        self._main: list[int] = []  # of trainings that may continue, the present one last
        self._main_steps = 0

    def step(self, optimizer: int) -> bool:
        """Count a step of an optimizer, given by a number; return if it begins an iteration."""
        is_new = optimizer not in self._known
        self._known.add(optimizer)
        # In the first iteration of a training all its optimizers are new.
        begins = not self._stepped or optimizer in self._stepped
        begins = begins or (is_new and not self._begun_by_new)
        # A training of several steps has ended if an earlier one continues.
        continues = optimizer in self._main[:-1]
        begins = begins or (continues and self._main_steps > 1)
        if begins:
            self.iteration += 1
            self._stepped.clear()
            self._begun_by_new = is_new
        self._stepped.add(optimizer)
        if (begins and is_new) or continues:
            self._main = [*self._main[: self._place(optimizer)], optimizer]
            self._main_steps = 0
        self._main_steps += self.is_main(optimizer)
        return begins

    def _place(self, optimizer: int) -> int:
        known = optimizer in self._main
        return self._main.index(optimizer) if known else len(self._main)

    def is_main(self, optimizer: int) -> bool:
        """Return whether this is the main optimizer at present."""
        return self._main[-1:] == [optimizer]


class EpochCounter:
    """Counts the epochs of a loop by the batches that it trains on, if these have one source.

    A loop may train on batches that its source does not give again, as ``itertools.cycle`` keeps
    those of the first pass. Its epochs are unknown then.
    """

    def __init__(self) -> None:
        self._sources: set[object] = set()
        self._whole = 0.0  # epochs before the present pass
        self._pass = -1
        self._epoch = 0.0
        self._length = 0
        self._is_over = False  # whether the source has given all batches of the pass
        self._old, self._usual = 0, 1  # iterations on one batch: now, and the most before

    @property
    def epoch(self) -> float:
        """Epochs done, such as 1.5; 0 if unknown."""
        is_kept = self._old > self._usual and (self._is_over or self._old >= self._length)
        is_known = len(self._sources) == 1 and not (self._length and is_kept)
        return self._epoch if is_known else 0.0

    def begin_at(self, epoch: int) -> None:
        """Count on from the beginning of an epoch, given by those before it."""
        self._epoch = float(epoch)

    def begin_iteration(self) -> None:
        """Note that an iteration begins, by the step that ends on the batches so far."""
        self._old += 1

    def trained(
        self, source: object, length: int, number: int, position: float, *, repeats: bool = False
    ) -> None:
        """Note that a batch is trained on.

        Args:
            source: Identifies the data; another source makes the epoch unknown.
            length: Batches of a pass over the data; 0 if unknown.
            number: The number of the pass, different for each.
            position: Batches of the pass so far, this one included.
            repeats: Whether the source begins again by itself, in the same pass.
        """
        self._sources.add(source if length else None)
        self._usual, self._old = max(self._usual, self._old), 0
        self._length = length
        if not length:
            self._epoch = 0.0
            return
        if number != self._pass:
            # A pass that gives too many batches is one; one that never ends is as many as it was.
            done = self._epoch - self._whole
            is_longer = self._pass >= 0 and done > 1 and not repeats
            self._whole += math.floor(done) if is_longer else math.ceil(done)
            self._pass = number
        self._is_over = position >= length and not repeats
        self._epoch = self._whole + position / length


class _Noted:
    """The loss of one backward pass, and the parameters whose gradients were cleared since."""

    __slots__ = ("cleared", "passed", "value")

    def __init__(self, value: float) -> None:
        self.value = value
        self.cleared: set[int] = set()
        self.passed: set[int] = set()  # optimizers that have stepped without it


class StepLoss:
    """The loss of a step: the sum over its backward passes.

    The gradient that the optimizer gets is the gradient of this sum. With gradient accumulation,
    losses are divided by the number of batches, so the sum is their mean; the losses of several
    objectives add up to the whole one. Losses that are accumulated without a division add up
    too, as their gradients do. A loss whose gradient the optimizer has thrown away before its step,
    as that of an attack on the inputs, is not a part of it. Of an optimizer that evaluates a
    closure several times in one step, such as LBFGS, the first evaluation counts, which is what its
    ``step`` returns.
    """

    def __init__(self) -> None:
        self._noted: list[_Noted] = []
        self._is_inside = self._is_evaluated = False

    @property
    def is_pending(self) -> bool:
        """Whether losses wait for a step, so that ``clear`` has something to do."""
        return bool(self._noted) and not self._is_evaluated

    def add(self, value: float) -> None:
        """Add the loss of one backward pass: a number, or a scalar on a device."""
        if self._is_inside:
            if self._is_evaluated:
                return
            self._is_evaluated = True
        self._noted.append(_Noted(value))

    def clear(self, parameters: Iterable[int]) -> None:
        """Note that gradients are thrown away, of parameters that are given by numbers."""
        if self.is_pending:
            found = {*parameters}
            for one in self._noted:
                one.cleared |= found

    def begin_step(self) -> None:
        """Note that the optimizer's step begins; backward passes until its end are inside."""
        self._is_inside, self._is_evaluated = True, False

    def end_step(
        self, optimizer: int = 0, parameters: Callable[[], Collection[int]] = tuple
    ) -> float | None:
        """Return the loss of the step that ends; None if it had no backward pass of its own.

        Args:
            optimizer: Its number.
            parameters: Returns the numbers of those that it changes.
        """
        total: float | None = None
        kept = []
        for one in self._noted:
            if not (one.cleared and one.cleared.issuperset(parameters())):
                total = one.value if total is None else total + one.value
            elif optimizer not in one.passed:  # another optimizer's step may come to it
                one.passed.add(optimizer)
                kept.append(one)
        self._noted = kept
        self._is_inside = self._is_evaluated = False
        return total
