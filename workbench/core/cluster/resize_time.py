"""When a run moves to the ranks of another size."""

from __future__ import annotations

from enum import StrEnum


class ResizeAt(StrEnum):
    """When a run that trains moves to the ranks of another size."""

    STEP = "step"
    EPOCH = "epoch"
    END = "end"
