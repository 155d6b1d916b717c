"""Read what programs found that train, are stopped, and continue."""

from __future__ import annotations

from collections import Counter
from typing import Any

Found = list[dict[str, Any]]
"""What each rank found, in rank order."""


def losses(*attempts: Found) -> dict[str, float]:
    """Return rank 0's losses by training and iteration, of several attempts together."""
    return {name: value for found in attempts for name, value in found[0]["losses"].items()}


def visits(*attempts: Found) -> dict[int, Counter[int]]:
    """Return for each epoch how often each example was visited, by all ranks."""
    epochs: dict[int, Counter[int]] = {}
    for found in attempts:
        for rank in found:
            for epoch, numbers in rank["visited"]:
                epochs.setdefault(epoch, Counter()).update(numbers)
    return epochs


def once(epochs: int, examples: int) -> dict[int, Counter[int]]:
    """Return that each example was visited once in each epoch."""
    return {epoch: Counter(range(examples)) for epoch in range(epochs)}
