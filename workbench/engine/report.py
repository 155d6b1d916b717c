"""Report values from any training loop."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

from workbench.engine.current import current
from workbench.errors import InputError


def report(
    *,
    iteration: int | None = None,
    total: int | None = None,
    epoch: float | None = None,
    **values: Any,
) -> None:
    """Report one iteration's values; the curve grows and the run may stop here.

    Outside of a run it does nothing, so a script that reports also works when started by hand.

    Args:
        iteration: The number of the iteration; by default one more than last time.
        total: Iterations to do, for the progress bar.
        epoch: Epochs done, may be fractional.
        values: Names and numbers; anything that ``float`` takes, 0-d arrays and tensors too.

    Raises:
        InputError: A value is not a number.
    """
    run = current()
    if run is None:
        return
    number = run.iteration + 1 if iteration is None else operator.index(iteration)
    run.iteration = number
    for name, value in values.items():
        run.log.add(name, number, _number(name, value))
    run.log.progress = replace(
        run.log.progress,
        iteration=number,
        iterations_total=total if total is not None else run.log.progress.iterations_total,
        epoch=epoch if epoch is not None else run.log.progress.epoch,
    )
    run.boundaries.passed()
    run.boundaries.check()


def _number(name: str, value: Any) -> float:
    try:
        return float(getattr(value, "array", value))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"report({name}=…) takes a number, not {value!r}; pass float(…) of one value."
        ) from error
