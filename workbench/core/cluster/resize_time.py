"""When a run moves to the ranks of another size."""

from __future__ import annotations

from enum import StrEnum

from workbench.errors import InputError

RESIZE_TIMES = ("step", "epoch", "end")


class ResizeAt(StrEnum):
    """When a run that trains moves to the ranks of another size."""

    STEP = "step"
    EPOCH = "epoch"
    END = "end"


def resize_time(text: str) -> ResizeAt:
    """Return when to move, as it was typed.

    Raises:
        InputError: It is none of the three.
    """
    try:
        return ResizeAt(text)
    except ValueError:
        raise InputError(
            f"--at takes step, epoch or end, not {text!r:.40}",
            "step is the default.",
        ) from None
