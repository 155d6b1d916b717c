"""How each kind of object in the state of an elastic loop is saved: what is NumPy's and Python's.

Chainer's and PyTorch's kinds are in modules of their own, which are imported with them.
"""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy

from workbench.engine.snapshot.random_state import saved_random
from workbench.engine.snapshot.writer import new_arrays
from workbench.errors import StateError

ARRAYS, TENSORS = "state.npz", "state.pt"
"""The files of a snapshot, for NumPy's and Chainer's values, and for PyTorch's."""

DATA = "workbench/data"
"""The name of the loop's place in its data, beside the user's entries."""

SAMPLED = 4

_NUMBERS = (bool, int, float, complex, str, bytes, type(None), numpy.generic)


class StateEntry:
    """One entry of a state, by its name.

    Args:
        state: What the user passed; an entry may be replaced by another one of its kind.
    """

    kind = ""
    """What it is, for a reader; ranks and snapshots must agree on it."""
    file = ""
    """The file that has what all ranks have in common; empty if they have nothing."""
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


def sampled(array: Any) -> list[float]:
    """Return some numbers of an array in host memory; none of another one."""
    if not isinstance(array, numpy.ndarray) or array.dtype.kind not in "fiu":
        return []
    return [float(one) for one in array.flat[:: max(1, array.size // SAMPLED)]][:SAMPLED]


def own_of(owns: Sequence[Any], rank: int) -> Any:
    """Return a rank's own state; of a rank that did not exist, the first one's."""
    return owns[rank] if rank < len(owns) else owns[0]


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
    """An object with ``state_dict`` and ``load_state_dict``; each rank has its own.

    Schedulers and ``GradScaler`` of PyTorch are such.
    """

    kind = "an object with a state_dict"
    file = TENSORS
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
        return sampled(self.value)

    def memory(self) -> Callable[[], Any]:
        """Return what allocates an array for a copy; one of a device is copied into a new one."""
        value = self.value
        arrays = {} if hasattr(value, "get") else {"": (value.shape, value.dtype)}
        return functools.partial(new_arrays, arrays)

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
        value = self.value
        if isinstance(value, numpy.random.Generator):
            return copy.deepcopy(value.bit_generator.state)
        return value.getstate() if isinstance(value, random.Random) else value.get_state()

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Set its state; a new rank keeps its own, unless all ranks had the same one."""
        saved, value = saved_random(owns, rank), self.value
        if saved is None:
            return ""
        if isinstance(value, numpy.random.Generator):
            value.bit_generator.state = saved
        elif isinstance(value, random.Random):
            value.setstate(saved)
        else:
            value.set_state(saved)
        return ""


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
