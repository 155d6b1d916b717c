"""Save the numbers that Chainer leaves out of a snapshot, such as a changed learning rate.

A number is restored only where the code still begins with the value that it began with then: a
learning rate that was edited since is the new one.
"""

from __future__ import annotations

import math
from typing import Any

Numbers = dict[str, dict[str, float]]
"""For each object its attributes that are numbers."""


class PlainValues:
    """The numbers of optimizers and triggers that Chainer does not save.

    ``parts`` has the serializable parts of triggers that are not serializable themselves, such as
    ``EarlyStoppingTrigger``.

    Args:
        optimizers: By name; also multi-node optimizers.
        triggers: By name.
        shifts: Extensions that shift the rate, by name.
    """

    def __init__(
        self,
        optimizers: dict[str, Any],
        triggers: dict[str, Any],
        shifts: dict[str, Any] | None = None,
    ) -> None:
        triggers = {
            name: trigger
            for name, trigger in triggers.items()
            if not hasattr(trigger, "serialize") and hasattr(trigger, "__dict__")
        }
        self._objects = _with_hyperparam(optimizers) | triggers | (shifts or {})
        self.parts = {
            f"workbench/{name}/{attribute}/": part
            for name, trigger in triggers.items()
            for attribute, part in vars(trigger).items()
            if hasattr(part, "serialize")
        }
        self.first = self.now()

    def now(self) -> Numbers:
        """Return the present values."""
        return {name: _numbers(vars(one)) for name, one in self._objects.items()}

    def restore(self, first: Numbers, saved: Numbers, *, ranks: float = 1.0) -> None:
        """Set what had changed.

        A learning rate that the code scales with the number of ranks stays, because it is for the
        batch of all ranks.

        Args:
            first: The values when the earlier training began.
            saved: The values when it was saved.
            ranks: How many times as many ranks there are now.
        """
        for name, one in self._objects.items():
            before = first.get(name, {})
            for attribute, value in saved.get(name, {}).items():
                if attribute not in before:
                    if vars(one).get(attribute, 0) is None:  # where a shift of the rate began
                        vars(one)[attribute] = value
                    continue
                now, then = self.first[name].get(attribute), before[attribute]
                if now == then:
                    vars(one)[attribute] = value
                elif not (now and then and name.startswith("hyperparam:")):
                    continue
                elif _follows(now / then, ranks):
                    vars(one)[attribute] = value

    def restore_rates(self, first: Numbers, saved: Numbers, *, ranks: float) -> None:
        """Set the rates again, which extensions that shift them set when they are initialized."""
        if any(name.startswith("extensions/") for name in self._objects):
            rates = {name: one for name, one in saved.items() if name.startswith("hyperparam:")}
            self.restore(first, rates, ranks=ranks)


def plain_values_of(trainer: Any) -> PlainValues:
    """Return the numbers of a training that Chainer does not save."""
    optimizers = trainer.updater.get_all_optimizers()
    return PlainValues(optimizers, _triggers(trainer), _shifts(trainer))


def _with_hyperparam(optimizers: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, optimizer in optimizers.items():
        actual = vars(optimizer).get("actual_optimizer", optimizer)
        found[f"optimizer:{name}"] = actual
        if hasattr(actual, "hyperparam"):
            found[f"hyperparam:{name}"] = actual.hyperparam
    return found


def _triggers(trainer: Any) -> dict[str, Any]:
    entries = trainer._extensions.items()
    extensions = {f"extension_triggers/{name}": entry.trigger for name, entry in entries}
    return {"stop_trigger": trainer.stop_trigger, **extensions}


def _shifts(trainer: Any) -> dict[str, Any]:
    """Return Chainer's extensions that shift the rate, which leave out where it began."""
    return {
        f"extensions/{name}": entry.extension
        for name, entry in trainer._extensions.items()
        if type(entry.extension).__module__.startswith("chainer.")
        and hasattr(entry.extension, "_attr")
    }


def _follows(factor: float, ranks: float) -> bool:
    """Return whether a factor is that of the ranks, or its square root."""
    return any(math.isclose(factor, one) for one in (ranks, math.sqrt(ranks)))


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    return {name: _plain(one) for name, one in values.items() if _is_number(one)}


def _is_number(value: Any) -> bool:
    """Return whether a value is a number, or an array of one on any device."""
    if type(value) in (int, float, bool):
        return True
    return getattr(value, "shape", None) == () and hasattr(value, "item")


def _plain(value: Any) -> float:
    plain: float = value.item() if hasattr(value, "item") else value
    return plain


def training_length(trigger: Any) -> tuple[int, float]:
    """Return the total (iterations, epochs); 0 for what the stop trigger does not have."""
    period, unit = getattr(trigger, "period", None), getattr(trigger, "unit", None)
    if period is None:  # triggers that wrap another one, such as EarlyStoppingTrigger
        return (
            training_length(trigger._max_trigger) if hasattr(trigger, "_max_trigger") else (0, 0.0)
        )
    return (int(period), 0.0) if unit == "iteration" else (0, float(period))
