"""Gradients that all fit in one message with the header: gather, add up, check and write back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workbench.engine.exchange.bucket_layout import BucketLayout
from workbench.engine.exchange.gradient_storage import scaled_back
from workbench.engine.exchange.nonfinite import is_suspect
from workbench.engine.exchange.transport import Array

if TYPE_CHECKING:
    from workbench.engine.exchange.reducer import Reducer


class SingleMessage:
    """All gradients of a layout in the header's buffer, of single or half precision."""

    def __init__(self, reducer: Reducer, plan: BucketLayout) -> None:
        self.seconds = -1.0
        """Seconds of the exchange in the last call of ``average``; below 0 without one."""
        self._reducer, self._places = reducer, plan.small
        self._buffer = buffer = plan.closing.buffer
        self._rows = [
            (row.name, row.shape, row.kind, buffer[row.start : row.stop].reshape(row.shape))
            for row in plan.rows
        ]
        self._factor: Array = None

    def average(
        self, names: Sequence[str], gradients: Sequence[Array | None]
    ) -> list[tuple[int, Array]] | None:
        """Replace gradients by their means over the ranks.

        Without an exchange, if a gradient is not as in the layout.

        Returns:
            Number and array of each that must replace a gradient; None without an exchange, or if
            a sum is not finite.
        """
        self.seconds = -1.0
        if not self._is_loaded(names, gradients):
            return None
        start = time.perf_counter()
        self._factor = self._reducer.total(self._buffer)
        self.seconds = time.perf_counter() - start
        return None if is_suspect(self._buffer) else self.give(gradients)

    def give(self, gradients: Sequence[Any]) -> list[tuple[int, Array]]:
        """Replace the gradients of the last exchange, although a sum is not finite."""
        return scaled_back(self._places, self._factor, gradients)

    def _is_loaded(self, names: Sequence[str], gradients: Sequence[Array | None]) -> bool:
        """Copy the gradients into the message; false if one is not as in the layout."""
        if not len(names) == len(gradients) == len(self._rows):
            return False
        for number, (name, shape, kind, place) in enumerate(self._rows):  # sooner than ``zip``
            gradient = gradients[number]
            if gradient is None or gradient.shape != shape or names[number] != name:
                return False
            if gradient.dtype != kind:
                return False
            place[...] = gradient
        return True
