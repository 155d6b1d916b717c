"""Scale the learning rate with the batch, with a warm-up.

P. Goyal et al., "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour" (2017), arXiv
1706.02677: a batch ``k`` times as large needs ``k`` times the learning rate, which rises linearly
over the first five epochs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chainer.training import Extension

from workbench.core.performance.batch_size import WARM_UP_EPOCHS, WarmUp, warm_up
from workbench.errors import InputError
from workbench.frameworks.chainer.batches import kept_batch

RampState = tuple[float, int, int]
"""The factor at the end, the iterations until then, and those that are done."""

_NAMES = ("lr", "alpha")


class LinearScaling(Extension):
    """A Chainer extension that scales the learning rate for the batch of all ranks, with warm-up.

    After the warm-up it no longer changes the rate, so other extensions may::

        trainer.extend(workbench.LinearScaling(comm))

    Args:
        communicator: ChainerMN's or ours; its size is the number of ranks that share a batch.
        batch: The batch size that the optimizer's learning rate is for; by default one rank's.
        epochs: The length of the warm-up.
        iterations: The length of the warm-up, in place of ``epochs``.
        attr: The optimizer's attribute; by default ``lr``, or else ``alpha``.
        optimizer: By default the updater's main one.

    Raises:
        InputError: An argument is invalid.
    """

    trigger = (1, "iteration")
    name = "LinearScaling"

    def __init__(
        self,
        communicator: Any,
        *,
        batch: int | None = None,
        epochs: float = WARM_UP_EPOCHS,
        iterations: int | None = None,
        attr: str | None = None,
        optimizer: Any = None,
    ) -> None:
        if batch is not None and batch < 1:
            raise InputError(
                f"LinearScaling needs a batch of at least 1, not {batch}",
                "pass the batch size of one rank.",
            )
        if min(epochs, iterations or 0) < 0:
            raise InputError(
                "LinearScaling needs a warm-up of 0 or more", "give epochs or iterations from 0."
            )
        self._ranks = int(communicator.size)
        self._batch = batch
        self._epochs = epochs
        self._iterations = iterations
        self._attr = attr
        self._optimizer = optimizer
        self._base: float | None = None
        self.plan: WarmUp | None = None

    def __repr__(self) -> str:
        if self.plan is None:
            return f"<LinearScaling to {self._ranks} ranks>"
        plan = self.plan
        return f"<LinearScaling {plan.start:g} to {plan.peak:g} in {plan.iterations} iterations>"

    def initialize(self, trainer: Any) -> None:
        """Record the optimizer's rate as the one for ``batch``."""
        updater = trainer.updater
        if self._optimizer is None:
            known = updater.get_all_optimizers()
            self._optimizer = next(iter(known.values())) if len(known) == 1 else known.get("main")
        if self._optimizer is None:
            raise InputError(
                f"LinearScaling does not know which optimizer it is to scale: {_join_names(known)}",
                "extend the trainer once for each, as in LinearScaling(comm, optimizer=one).",
            )
        self._attr = self._attr or rate_attribute(self._optimizer)
        if self._base is None:
            self._base = float(getattr(self._optimizer, self._attr))
        iterator = updater.get_iterator("main")
        own = int(iterator.batch_size)
        total, kept = own * self._ranks, kept_batch(iterator)
        if kept is not None:  # on other ranks than the first, whose batch of all ranks stays
            own, total = kept.first, kept.total
        examples = len(iterator.dataset) * self._ranks
        plan = warm_up(self._base, self._batch or own, total, examples, epochs=self._epochs)
        iterations = plan.iterations if self._iterations is None else self._iterations
        self.plan = WarmUp(plan.start, plan.peak, iterations)
        self._set(self.plan.at(updater.iteration))

    def __call__(self, trainer: Any) -> None:
        """Set the rate of the next iteration, until the end of the warm-up."""
        assert self.plan is not None
        if trainer.updater.iteration <= self.plan.iterations:
            self._set(self.plan.at(trainer.updater.iteration))

    def serialize(self, serializer: Any) -> None:
        """Save the base rate, which the optimizer no longer has."""
        self._base = serializer("base", self._base)
        if self._base is not None:
            self._base = float(self._base)

    def _set(self, rate: float) -> None:
        assert self._attr is not None
        setattr(self._optimizer, self._attr, rate)


def _join_names(names: Iterable[str]) -> str:
    return " and ".join(map(repr, names))


def rate_attribute(optimizer: Any) -> str:
    """Return the name of an optimizer's learning rate.

    Raises:
        InputError: It has neither ``lr`` nor ``alpha``.
    """
    # Adam has an lr too, which follows from its alpha; RMSprop's alpha is not a learning rate.
    known = optimizer.hyperparam.get_dict()
    for name in _NAMES:
        if name in known:
            return name
    raise InputError(
        f"{type(optimizer).__name__} has neither lr nor alpha", "name its rate, as in attr='eta'."
    )


class RateRamp:
    """Multiplies an optimizer's rate by factors whose product rises from 1.

    So it goes with what else changes the rate meanwhile.
    """

    def __init__(self, optimizer: Any, plan: WarmUp, done: int = 0) -> None:
        self._optimizer, self._attribute = optimizer, rate_attribute(optimizer)
        self._plan, self._done = plan, done

    def __repr__(self) -> str:
        plan = self._plan
        within = f"in {plan.iterations} iterations" if plan.iterations else "at once"
        return f"{self._attribute} becomes {plan.peak:g} times as large {within}"

    def begin(self) -> None:
        """Scale the rate at once, if it does not rise."""
        if not self._plan.iterations:
            self._multiply(self._plan.peak)

    def step(self) -> None:
        """Scale the rate for the next iteration."""
        if self._done < self._plan.iterations:
            before = self._plan.at(self._done)
            self._done += 1
            self._multiply(self._plan.at(self._done) / before)

    @property
    def state(self) -> RampState | None:
        """What is left of it; None if it is over."""
        plan = self._plan
        return (plan.peak, plan.iterations, self._done) if self._done < plan.iterations else None

    def _multiply(self, factor: float) -> None:
        rate = getattr(self._optimizer, self._attribute)
        setattr(self._optimizer, self._attribute, rate * factor)


def ramps_of(
    updater: Any, before: float, now: float, examples: int, saved: dict[str, RampState]
) -> dict[str, RateRamp]:
    """Return the ramps of an updater's optimizers by name; none of those without a rate.

    Args:
        before: The batch of all ranks of the snapshot.
        now: The batch of all ranks.
        examples: Of an epoch.
        saved: The state of ramps that were not over.
    """
    found: dict[str, RateRamp] = {}
    ramped = set[int]()
    for name, optimizer in updater.get_all_optimizers().items():
        if id(optimizer) in ramped:  # it has two names, and one rate
            continue
        ramped.add(id(optimizer))
        state = saved.get(name)
        try:
            if state is not None and now == before:
                found[name] = RateRamp(optimizer, WarmUp(1.0, state[0], state[1]), state[2])
            elif state is not None or now != before:
                # What is left of an earlier rise is a part of this one.
                left = state[0] / WarmUp(1.0, *state[:2]).at(state[2]) if state else 1.0
                plan = warm_up(1.0, before, now * left, examples)
                found[name] = RateRamp(optimizer, plan)
        except InputError:
            continue
    return found


def rate_setter(trainer: Any) -> str:
    """Return the name of an extension that sets the learning rate; empty without one."""
    for entry in trainer._extensions.values():
        if hasattr(entry.extension, "_attr"):
            return type(entry.extension).__name__
    return ""
