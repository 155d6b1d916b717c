"""Report values from any training loop, and what a framework logs beside its loop's own curves."""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Mapping
from typing import Any, SupportsFloat, SupportsIndex

from msgspec.structs import replace

from workbench.core.messages import MOST, NAME_CHARACTERS
from workbench.engine.run_context import current
from workbench.errors import InputError

# The loop's own curves have these, at every step.
_SEEN = frozenset({"loss", "lr", "learning_rate", "epoch", "step", "total_flos"})

_SHOWN = 120  # characters of an invalid value in an error
# Threads that report count on from each other; a signal's handler may report in the midst of it.
_one_at_a_time = threading.RLock()


def report(
    *,
    iteration: SupportsIndex | SupportsFloat | None = None,
    total: SupportsIndex | SupportsFloat | None = None,
    epoch: SupportsFloat | SupportsIndex | None = None,
    **values: Any,
) -> None:
    """Report one iteration's values; the run may stop here.

    Outside of a run it does nothing, so scripts that report also work when started by hand.

    Args:
        iteration: The number of the iteration; by default the previous one plus one, or the
            present one in a loop whose steps are counted.
        total: Iterations to do, for the progress bar.
        epoch: Epochs done, may be fractional.
        values: Names and numbers, which may be infinite or NaN.

    All numbers may be of any type that ``float`` takes, 0-d arrays and tensors too.

    Raises:
        InputError: A value is not a number, or a count is not valid.
    """
    run = current()
    if run is None:
        return
    given = None if iteration is None else _count("iteration", iteration)
    iterations = None if total is None else _count("total", total)
    epochs = None if epoch is None else _epochs(epoch)
    numbers = [(_name(name), _number(name, value)) for name, value in values.items()]
    with _one_at_a_time:
        before = run.log.progress
        number = _count("iteration", run.next_iteration()) if given is None else given
        progress = replace(
            before,
            iteration=number,
            iterations_total=before.iterations_total if iterations is None else iterations,
            epoch=before.epoch if epochs is None else epochs,
        )
        run.iteration = number
        run.own_names.update(values)
        run.own_names.update(
            name for name, one in (("iteration", given), ("epoch", epochs)) if one is not None
        )
        for name, value in numbers:
            run.log.add(name, number, value)
        run.log.progress = progress
        if run.is_boundary(values):
            run.boundaries.passed(progress.epoch)
    if not run.in_loop:  # else it stops at the end of the step, where its state is saved
        run.boundaries.check()


def _number(name: str, value: Any) -> float:
    try:
        return float(getattr(value, "array", value))
    except (TypeError, ValueError, OverflowError):
        # Without the cause, whose frames are ours: the first line shown is the caller's.
        raise InputError(
            f"report({name}=…) takes a number, not {_format_value(value)}",
            "pass float(…) of one value.",
        ) from None


def _count(name: str, value: Any) -> int:
    """Return a whole number given in any type: ``np.int64``, a tensor, ``3.0``."""
    try:
        number = operator.index(value)
    except TypeError:
        approximate = _number(name, value)
        number = int(approximate) if approximate.is_integer() else -1
    if not 0 <= number <= MOST:
        raise InputError(
            f"report({name}=…) takes a whole number from 0 to 2**53, not {_format_value(value)}",
            "leave it out if it is unknown.",
        )
    return number


def _epochs(value: Any) -> float:
    number = _number("epoch", value)
    if not 0 <= number <= MOST:
        raise InputError(
            f"report(epoch=…) takes a finite number, 0 or more, not {_format_value(value)}",
            "leave it out if it is unknown.",
        )
    return number


def _name(name: str) -> str:
    if not 0 < len(name) <= NAME_CHARACTERS:
        raise InputError(
            f"report(…) was given a name of {len(name):,} characters, {_format_value(name)}",
            f"give each value one of 1 to {NAME_CHARACTERS}.",
        )
    return name


def _format_value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def report_logged(values: Mapping[str, Any]) -> None:
    """Report what a framework logs at the present iteration, as far as it is numbers."""
    if (run := current()) is None:
        return
    numbers = [
        (name, number)
        for name, value in values.items()
        if name not in _SEEN | run.own_names and (number := _find_number(value)) is not None
    ]
    if numbers:
        run.log.add_all(run.iteration, tuple(numbers))


def plan(iterations: float, epochs: float) -> None:
    """Note how many iterations and epochs a framework plans; 0 and the largest are unknown."""
    if (run := current()) is None:
        return
    known = [one if 0 < one < sys.maxsize else 0 for one in (iterations, epochs)]
    run.log.progress = replace(
        run.log.progress, iterations_total=int(known[0]), epochs_total=float(known[1])
    )


def _find_number(value: Any) -> float | None:
    """Return a value's number; None if it has none."""
    size = getattr(value, "numel", None)
    if isinstance(value, bool | str) or (callable(size) and size() != 1):
        return None
    try:
        return float(value.detach() if hasattr(value, "detach") else value)
    except (TypeError, ValueError, RuntimeError):
        return None
