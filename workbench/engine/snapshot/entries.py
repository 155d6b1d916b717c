"""How each kind of object in the state of a training is saved: what is NumPy's and Python's.

A framework has kinds of its own for its objects; see ``Framework.state_entry``.
"""

from __future__ import annotations

import copy
import functools
import pickle
import random
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from workbench.engine.snapshot.array_file import ARRAYS
from workbench.engine.snapshot.saved_bytes import StateFile
from workbench.engine.snapshot.writer import new_arrays
from workbench.errors import StateError

if TYPE_CHECKING:
    from workbench.engine.snapshot.pieces import PieceFormat

DATA = "workbench/data"
"""The name of the loop's place in its data, beside the user's entries."""


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
    pieces: PieceFormat | None = None
    """The format of what it has divided among the ranks; None if it never has."""

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

    def divided(self) -> Mapping[str, Any]:
        """Return the arrays that are divided among the ranks, by name; ``common`` lacks them."""
        return {}

    def fill(self, common: Any, read: Callable[[Mapping[str, Any]], None]) -> Any:
        """Return the common state of a snapshot with what is divided; collective.

        Args:
            common: What the file has.
            read: Overwrites divided arrays, by the names that ``divided`` gave when it was saved.
        """
        return common

    def places(self) -> Any:
        """Return the arrays in host memory that ``restore`` overwrites, as ``common`` names them.

        What is saved of them may be there before ``restore`` is called.
        """
        return {}

    def memory(self) -> Callable[[], Any]:
        """Return what allocates memory for ``common``, later and in another thread."""
        arrays = {name: (one.shape, one.dtype) for name, one in self.places().items()}
        return functools.partial(new_arrays, arrays)

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

    def capture(self, spare: Any, *, has_common: bool) -> tuple[Any, Any]:
        """Return ``common``, or None without it, and ``own``; some kinds copy both in one pass."""
        return self.common(spare) if has_common else None, self.own()

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
    ends_update = True
    """Whether the model was updated after the batch that was trained on last."""

    def __init__(self, data: Any) -> None:
        super().__init__({DATA: data}, DATA)

    @property
    def examples(self) -> int:
        """Examples of an epoch, of all ranks; 0 if unknown."""
        return 0

    def given(self) -> Any:
        """Return the numbers of the examples given last, in a NumPy array; None if unknown."""
        return None

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

    def watch(self, may_be_saved: Callable[[], bool]) -> None:
        """Ask, where data is read ahead, whether a snapshot may follow the present update."""

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


SAMPLED = 4

_NUMBERS = (bool, int, float, complex, str, bytes, type(None), numpy.generic)


def sample_array(array: Any) -> list[float]:
    """Return some numbers of an array in host memory; none of another one."""
    if not isinstance(array, numpy.ndarray) or array.dtype.kind not in "fiu":
        return []
    return [float(one) for one in array.flat[:: max(1, array.size // SAMPLED)]][:SAMPLED]


class PlainEntry(StateEntry):
    """A number, a text, or a list or dictionary of such; each rank has its own."""

    kind = "a plain value"

    def own(self) -> Any:
        """Return a copy."""
        return copy.deepcopy(self.value)

    def readable(self, common: Any, own: Any) -> Any:
        """Return rank 0's."""
        return own

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Set it; a list or dictionary stays the same object, which the code may use directly."""
        saved, present = copy.deepcopy(own_of(owns, rank)), self.value
        if isinstance(present, list) and isinstance(saved, list):
            present[:] = saved
        elif isinstance(present, dict | set) and type(saved) is type(present):
            present.clear()
            present.update(saved)
        else:
            self._state[self.name] = saved
        return ""


class StateDictEntry(StateEntry):
    """An object with ``state_dict`` and ``load_state_dict``; each rank has its own."""

    kind = "an object with a state_dict"
    order = 2  # what it belongs to is restored before

    def own(self) -> Any:
        """Return a copy of its ``state_dict``."""
        return copy.deepcopy(self.value.state_dict())

    def readable(self, common: Any, own: Any) -> Any:
        """Return rank 0's ``state_dict``."""
        return own

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Load its ``state_dict``."""
        self.value.load_state_dict(copy.deepcopy(own_of(owns, rank)))
        return ""


class ArrayEntry(StateEntry):
    """An array of NumPy or CuPy, equal on all ranks."""

    kind = "an array"
    file = ARRAYS

    def sample(self) -> list[float]:
        """Return some of its numbers."""
        return sample_array(self.value)

    def places(self) -> Any:
        """Return the array, if it is in host memory."""
        return {"": self.value} if isinstance(self.value, numpy.ndarray) else {}

    def common(self, spare: Any) -> Any:
        """Return a copy in host memory."""
        value = self.value
        found = value.get() if hasattr(value, "get") else value
        if found is not value:
            return {"": found}
        before = None if spare is None else spare.get("")
        if before is not None and (before.shape, before.dtype) == (found.shape, found.dtype):
            numpy.copyto(before, found)
            return {"": before}
        return {"": found.copy()}

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Overwrite the array, which stays the same object."""
        saved, present = common[""], self.value
        if (saved.shape, saved.dtype) != (present.shape, present.dtype):
            raise StateError(
                f"state[{self.name!r}] is an array of {present.dtype} of shape {present.shape}, "
                f"and that of the snapshot is of {saved.dtype} of shape {saved.shape}",
                "resume with the state that the snapshot was saved from.",
            )
        if hasattr(present, "set"):  # CuPy's
            present.set(saved)
        else:
            numpy.copyto(present, saved)
        return ""


class GeneratorEntry(StateEntry):
    """A generator of random numbers, of Python or NumPy; each rank has its own."""

    kind = "a random generator"

    def own(self) -> Any:
        """Return its state."""
        return read_generator(self.value)

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Set its state; a new rank keeps its own, unless all ranks had the same one."""
        if (saved := find_saved_random(owns, rank)) is not None:
            set_generator(self.value, saved)
        return ""


def read_generator(generator: Any) -> Any:
    """Return the state of a random generator of Python or NumPy."""
    if isinstance(generator, numpy.random.Generator):
        return copy.deepcopy(generator.bit_generator.state)
    is_python = isinstance(generator, random.Random)
    return generator.getstate() if is_python else generator.get_state()


def set_generator(generator: Any, state: Any) -> None:
    """Continue a random generator of Python or NumPy."""
    if isinstance(generator, numpy.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.set_state(state)


def find_saved_random(states: Sequence[Any], rank: int) -> Any:
    """Return the random state of a rank; of one that did not exist, that of all ranks, or None."""
    if rank < len(states):
        return states[rank]
    return states[0] if len({pickle.dumps(one) for one in states}) == 1 else None


def is_plain(value: Any) -> bool:
    """Return whether a value is a number, a text, an array, or a collection of such."""
    if isinstance(value, dict):
        return all(is_plain(one) for pair in value.items() for one in pair)
    if isinstance(value, list | tuple | set | frozenset):
        return all(is_plain(one) for one in value)
    return isinstance(value, (*_NUMBERS, numpy.ndarray)) and not _has_objects(value)


def _has_objects(value: Any) -> bool:
    return isinstance(value, numpy.ndarray) and value.dtype.hasobject


def is_array(value: Any) -> bool:
    """Return whether a value is an array of NumPy or CuPy."""
    if isinstance(value, numpy.ndarray):
        return not _has_objects(value)
    return hasattr(value, "__cuda_array_interface__") and hasattr(value, "get")


def is_generator(value: Any) -> bool:
    """Return whether a value is a random generator of Python or NumPy."""
    return isinstance(
        value, numpy.random.Generator | numpy.random.RandomState | random.Random
    ) and not isinstance(value, random.SystemRandom)


def has_state_dict(value: Any) -> bool:
    """Return whether a value says and takes its state as PyTorch's objects do."""
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")
