"""How each kind of object in the state of an elastic loop is saved: what is NumPy's and Python's.

A framework has kinds of its own for its objects; see ``Framework.state_entry``.
"""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

import numpy

from workbench.engine.elastic.state_entry import StateEntry, StateFile, own_of
from workbench.engine.snapshot.array_file import read_arrays, write_arrays
from workbench.engine.snapshot.random_state import find_saved_random
from workbench.engine.snapshot.writer import new_arrays
from workbench.errors import StateError


class ArrayFile(StateFile):
    """Arrays by name, where an entry has several; the name of an array itself is empty."""

    name = "state.npz"

    def write(self, values: Mapping[str, Any], file: IO[bytes]) -> None:
        """Write arrays, by the entry's name and their own."""
        flat: dict[str, Any] = {}
        for name, value in values.items():
            several = value if isinstance(value, Mapping) else {"": value}
            flat |= {f"{name}/{path}" if path else name: one for path, one in several.items()}
        write_arrays(file, flat)

    def read(self, content: memoryview) -> dict[str, Any]:
        """Return arrays by the entry's name and their own."""
        found: dict[str, Any] = {}
        for name, one in read_arrays(content).items():
            entry, _, path = name.partition("/")
            found.setdefault(entry, {})[path] = one
        return found


ARRAYS = ArrayFile()

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
        saved, value = find_saved_random(owns, rank), self.value
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


def has_state_dict(value: Any) -> bool:
    """Return whether a value says and takes its state as PyTorch's objects do."""
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")
