"""Follow a batch of all ranks that changes with their number: scale the learning rate with it.

A larger batch gets a proportionally larger rate, which rises linearly over five epochs; a smaller
one gets a smaller rate at once. See ``workbench.core.performance.batch_size``, and P. Goyal et
al., "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour" (2017), arXiv 1706.02677.
"""

from __future__ import annotations

from typing import Any

from workbench.core.performance.batch_size import WarmUp, warm_up
from workbench.errors import InputError
from workbench.frameworks.chainer.linear_scaling import rate_attribute

RampState = tuple[float, int, int]
"""The factor at the end, the iterations until then, and those that are done."""


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
