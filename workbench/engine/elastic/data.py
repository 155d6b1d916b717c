"""Choose what gives an elastic loop its batches, and keeps its place in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.engine.elastic.global_batches import GlobalBatches, batches_state, restore_batches
from workbench.engine.elastic.state_entry import LoopData
from workbench.engine.framework import frameworks
from workbench.errors import InputError


class GlobalBatchesData(LoopData):
    """The numbers of a rank's examples, as a NumPy array."""

    kind = "GlobalBatches"

    @property
    def epoch(self) -> float:
        """Epochs done, such as 1.5."""
        batches: GlobalBatches = self.value
        return batches.epoch + batches.position / batches.examples

    @property
    def epochs_before(self) -> int:
        """Whole epochs that were done before the present batch."""
        return int(self.value.epoch)

    @property
    def ends_epoch(self) -> bool:
        """Whether the present batch is the last of its epoch."""
        return bool(self.value.is_last)

    def give(self) -> tuple[Any, float]:
        """Return this rank's share of the present batch, and its weight."""
        batches: GlobalBatches = self.value
        return batches.present()

    def trained(self) -> None:
        """Go to the next batch."""
        self.value.advance()

    def own(self) -> Any:
        """Return the place, and what the order depends on."""
        return batches_state(self.value)

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Set the place; another batch size continues the same order."""
        restore_batches(self.value, owns[0])
        return ""


def loop_data(data: Any) -> LoopData:
    """Return what gives a loop the batches of ``data``.

    Raises:
        InputError: It is nothing that keeps a place.
    """
    if isinstance(data, GlobalBatches):
        return GlobalBatchesData(data)
    for one in frameworks():
        if (found := one.loop_data(data)) is not None:
            return found
    *others, last = ["GlobalBatches", *(one.data for one in frameworks() if one.data)]
    kinds = f"{', '.join(others)} or {last}" if others else last
    raise InputError(
        f"elastic(data=…) takes {kinds}, not a {type(data).__name__}",
        "put what knows its place in the data into the state, and read the batches yourself.",
    )
