"""What gives an elastic loop its batches, and keeps its place in the data."""

from __future__ import annotations

from typing import Any

from workbench.engine.elastic.entries import DATA, StateEntry


class LoopData(StateEntry):
    """The loop's place in its data."""

    order = 3

    def __init__(self, data: Any) -> None:
        super().__init__({DATA: data}, DATA)

    @property
    def epoch(self) -> float:
        """Epochs done, such as 1.5."""
        raise NotImplementedError

    @property
    def epochs_before(self) -> int:
        """Whole epochs that were done before the batch that was given last."""
        raise NotImplementedError

    @property
    def ends_epoch(self) -> bool:
        """Whether the batch that was given last is the last of its epoch."""
        raise NotImplementedError

    def begin(self) -> None:
        """Prepare to give batches; the place has been restored if it was to be."""

    def give(self) -> tuple[Any, float] | None:
        """Return the next batch and the weight of its mean loss; None if an epoch ended just now.

        Raises:
            StopIteration: The data has ended, and begins no further epoch.
        """
        raise NotImplementedError

    def close(self) -> None:
        """End what reads ahead; no further batch is asked for."""

    def trained(self) -> None:
        """Count the batch that was given last as trained on."""
