"""Count the iterations and epochs of a training loop that is written by hand."""

from __future__ import annotations

import math


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
    """Counts the epochs of a loop by the batches that it trains on, if these have one source."""

    def __init__(self) -> None:
        self._sources: set[object] = set()
        self._whole = 0.0  # epochs before the present pass
        self._pass = -1
        self._epoch = 0.0

    @property
    def epoch(self) -> float:
        """Epochs done, such as 1.5; 0 if unknown."""
        return self._epoch if len(self._sources) == 1 else 0.0

    def begin_at(self, epoch: int) -> None:
        """Count on from the beginning of an epoch, given by those before it."""
        self._epoch = float(epoch)

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
        if not length:
            self._epoch = 0.0
            return
        if number != self._pass:
            self._pass, self._whole = number, float(math.ceil(self._epoch))
        done = position / length
        self._epoch = self._whole + (done if repeats else min(1.0, done))


class StepLoss:
    """The loss of a step: the sum over its backward passes.

    The gradient that the optimizer gets is the gradient of this sum. With gradient accumulation,
    losses are divided by the number of batches, so the sum is their mean; the losses of several
    objectives add up to the whole one. Losses that are accumulated without a division add up
    too, as their gradients do. Of an optimizer that evaluates a closure several times in one
    step, such as LBFGS, the first evaluation counts, which is what its ``step`` returns.
    """

    def __init__(self) -> None:
        self._total: float | None = None
        self._is_inside = self._is_evaluated = False

    def add(self, value: float) -> None:
        """Add the loss of one backward pass: a number, or a scalar on a device."""
        if self._is_inside:
            if self._is_evaluated:
                return
            self._is_evaluated = True
        self._total = value if self._total is None else self._total + value

    def begin_step(self) -> None:
        """Note that the optimizer's step begins; backward passes until its end are inside."""
        self._is_inside, self._is_evaluated = True, False

    def end_step(self) -> float | None:
        """Return the loss of the step that ends; None if it had no backward pass of its own."""
        total, self._total = self._total, None
        self._is_inside = False
        return total
