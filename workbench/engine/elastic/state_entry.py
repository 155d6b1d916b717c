"""How an object in the state of an elastic loop is saved, and what gives the loop its batches.

Frameworks have classes of their own, derived from these, for their objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import IO, Any

DATA = "workbench/data"
"""The name of the loop's place in its data, beside the user's entries."""


class StateFile:
    """A file of a snapshot: by the name of its entry, what all ranks have in common."""

    name = ""

    def write(self, values: Mapping[str, Any], file: IO[bytes]) -> None:
        """Write the values of entries, and the plain values of others."""
        raise NotImplementedError

    def read(self, content: memoryview) -> dict[str, Any]:
        """Return the values of entries by their names."""
        raise NotImplementedError


class StateEntry:
    """One entry of a state, by its name.

    Args:
        state: What the user passed; an entry may be replaced by another one of its kind.
    """

    kind = ""
    """What it is, for a reader; ranks and snapshots must agree on it."""
    file: StateFile | None = None
    """The file that has what all ranks have in common; None if they have nothing."""
    order = 0
    """Entries with a lower one are restored first."""

    def __init__(self, state: MutableMapping[str, Any], name: str) -> None:
        self._state, self.name = state, name

    @property
    def value(self) -> Any:
        """The present object."""
        return self._state[self.name]

    def lacks(self, entries: Mapping[str, StateEntry]) -> str:
        """Return what the entry updates and no entry of the state has; empty for nothing."""
        return ""

    def settle(self) -> None:
        """Complete what is still exchanged."""

    def memory(self) -> Callable[[], Any]:
        """Return what allocates memory for ``common``, later and in another thread."""
        return lambda: None

    def sample(self) -> list[float]:
        """Return some numbers that are equal on all ranks, but for rounding."""
        return []

    def common(self, spare: Any) -> Any:
        """Return a copy of what all ranks have in common.

        Args:
            spare: What an earlier call returned, which may be overwritten, or None.
        """
        return None

    def own(self) -> Any:
        """Return a copy of what this rank alone has; it can be pickled."""
        return None

    def readable(self, common: Any, own: Any) -> Any:
        """Return what the file has for readers, from the common state and rank 0's own."""
        return common

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Continue from a snapshot; return what is not exact, or nothing.

        Args:
            common: What the file has.
            owns: The own state of each rank of the snapshot.
            rank: This rank, of now ``ranks``.
        """
        return ""


def own_of(owns: Sequence[Any], rank: int) -> Any:
    """Return a rank's own state; of a rank that did not exist, the first one's."""
    return owns[rank] if rank < len(owns) else owns[0]


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
