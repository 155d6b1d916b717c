"""The state of a training: its entries, how they are written, and how they are restored.

A trainer's hook and an elastic loop each say which entries there are, and how far the training is.
"""

from __future__ import annotations

import functools
import pickle
import random
import zlib
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy

from workbench.core.run.rank_protocol import ExamplesVisited
from workbench.engine.framework import frameworks
from workbench.engine.snapshot.array_file import ARRAYS
from workbench.engine.snapshot.entries import (
    DATA,
    ArrayEntry,
    GeneratorEntry,
    LoopData,
    PlainEntry,
    StateDictEntry,
    StateEntry,
    find_saved_random,
    has_state_dict,
    is_array,
    is_generator,
    is_plain,
)
from workbench.engine.snapshot.folder import Write
from workbench.engine.snapshot.saved_bytes import Place, SavedBytes, Spots, StateFile, make_room
from workbench.engine.snapshot.visits import Visits
from workbench.errors import InputError, StateError

if TYPE_CHECKING:
    from workbench.engine.snapshot.pieces import PieceFormat, SavedPieces

_ROUNDING = 1e-4
_SAME = "resume with the state that the snapshot was saved from."


@dataclass
class StepCount:
    """The steps that a loop has done."""

    done: int = 0


class SavedState:
    """What the snapshots of a training have.

    Args:
        entries: Its parts; those with a lower ``order`` are restored first.
    """

    called = "training"

    def __init__(self, entries: Iterable[StateEntry]) -> None:
        self.entries = {one.name: one for one in sorted(entries, key=lambda one: one.order)}

    @property
    def iteration(self) -> int:
        """Iterations done."""
        raise NotImplementedError

    @property
    def epoch(self) -> float:
        """Epochs done, such as 1.5; 0 if unknown."""
        raise NotImplementedError

    def count_visits(self, training: int) -> list[ExamplesVisited]:
        """Return the visits of epochs that have ended since the last snapshot; collective.

        Args:
            training: Its number within the run.
        """
        return []

    @property
    def kinds(self) -> dict[str, str]:
        """What each entry is; equal on all ranks, and in a snapshot."""
        return {name: one.kind for name, one in self.entries.items()}

    def settle(self) -> None:
        """Complete what is still exchanged; may raise an error of the training."""
        for entry in self.entries.values():
            entry.settle()

    def sample(self) -> dict[str, list[float]]:
        """Return some numbers of the entries that are to be equal on all ranks."""
        return {name: one.sample() for name, one in self.entries.items()}

    def difference(self, samples: Sequence[dict[str, Any]]) -> str:
        """Return which entry the ranks have differently; empty if there is none.

        Args:
            samples: What ``sample`` returned on each rank.
        """
        for rank, other in enumerate(samples):
            for name, first in samples[0].items():
                if not _are_close(first, other.get(name, [])):
                    return (
                        f"state[{name!r}] differs between ranks 0 and {rank}; give what each rank "
                        "has for itself in a list"
                    )
        return ""

    @property
    def pieces(self) -> PieceFormat | None:
        """The format of what is divided among the ranks; None where nothing can be."""
        return next((one.pieces for one in self.entries.values() if one.pieces), None)

    def is_piece(self, file: str) -> bool:
        """Return whether a file of a snapshot has pieces of what is divided among the ranks."""
        return self.pieces is not None and self.pieces.is_own(file)

    @property
    def state_files(self) -> dict[str, StateFile]:
        """The files that have what all ranks have in common, by their names."""
        files = (one.file for one in self.entries.values())
        return {one.name: one for one in files if one is not None}

    def find_spots(self, name: str, content: SavedBytes) -> Spots:
        """Return where the arrays are in a file of a snapshot, which may be damaged."""
        file = self.state_files.get(name)
        return file.find_spots(content) if file is not None else {}

    def make_room(self, name: str, nbytes: int, spots: Spots) -> SavedBytes:
        """Return memory for a file, which is that of the present arrays where they fit."""
        places: dict[str, Place] = {}
        if spots and (file := self.state_files.get(name)) is not None:
            entries = self.entries.items()
            places = file.find_places(
                {entry: one.places() for entry, one in entries if one.file is file}
            )
        return make_room(nbytes, spots, places)

    def divided(self) -> dict[str, Any]:
        """Return the arrays that are divided among the ranks, by the names of their pieces."""
        return {
            _name(entry, name): one
            for entry, each in self.entries.items()
            for name, one in each.divided().items()
        }

    def memory(self) -> Callable[[], dict[str, Any]]:
        """Return what allocates memory for a copy of the common state, later and elsewhere."""
        parts = {name: one.memory() for name, one in self.entries.items() if one.file}
        return lambda: {name: allocate() for name, allocate in parts.items()}

    def capture(self, spare: dict[str, Any] | None) -> tuple[dict[str, Any] | None, Any]:
        """Return copies of what all ranks have in common, and of this rank's own.

        Args:
            spare: What may be overwritten; with None the common state is left out.
        """
        before, is_left_out = spare or {}, spare is None
        common: dict[str, Any] = {}
        entries: dict[str, Any] = {}
        for name, one in self.entries.items():
            has_common = not is_left_out and one.file is not None
            shared, entries[name] = one.capture(before.get(name), has_common=has_common)
            if has_common:
                common[name] = shared
        own = {
            "kinds": self.kinds,
            "iteration": self.iteration,
            "entries": entries,
            "random": random_states(),
        }
        return None if is_left_out else common, own

    def files(self, common: dict[str, Any], owns: Sequence[bytes]) -> dict[str, Write]:
        """Return what writes each file of the entries.

        Args:
            owns: Each rank's own state, pickled.
        """
        first = pickle.loads(owns[0])["entries"]
        content = {
            name: one.readable(common.get(name), first[name]) for name, one in self.entries.items()
        }
        parts: dict[StateFile, dict[str, Any]] = {}
        plain = {}
        for name, value in content.items():
            if (file := self.entries[name].file) is not None:
                parts.setdefault(file, {})[name] = value
            elif isinstance(value, bool | int | float | str):
                plain[name] = value
        # A framework's own file has them for its readers; that of arrays is there without one.
        first = next((file for file in parts if file is not ARRAYS), ARRAYS)
        parts[first] = parts.get(first, {}) | plain
        return {file.name: functools.partial(file.write, one) for file, one in parts.items()}

    def restore(
        self,
        contents: Mapping[str, SavedBytes],
        owns: Sequence[Any],
        rank: int,
        ranks: int,
        saved: SavedPieces | None = None,
    ) -> list[str]:
        """Continue from a snapshot's files, except for random numbers; return what is not exact.

        Args:
            owns: The own state of each rank of the snapshot.
            rank: This rank, of now ``ranks``.
            saved: What was divided among the ranks; None if nothing was.

        Raises:
            StateError: The snapshot is of another state.
        """
        self._check_kinds(owns[0]["kinds"], owns[0]["iteration"])
        files = self.state_files
        read = {files[name]: files[name].read(contents[name]) for name in files.keys() & contents}
        remarks = []
        for name, entry in self.entries.items():
            own = [one["entries"][name] for one in owns]
            common = read.get(entry.file, {}).get(name, {}) if entry.file is not None else {}
            common = entry.fill(common, functools.partial(self._read, name, saved))
            remarks.append(entry.restore(common, own, rank, ranks))
        return [*dict.fromkeys(filter(None, remarks))]

    def _read(self, entry: str, saved: SavedPieces | None, divided: Mapping[str, Any]) -> None:
        if divided:
            if saved is None or self.pieces is None:
                raise StateError(f"The snapshot has no pieces of {self.describe(entry)}", _SAME)
            self.pieces.read({_name(entry, name): one for name, one in divided.items()}, saved)

    def _check_kinds(self, saved: dict[str, str], iteration: int) -> None:
        if difference := difference_of(saved, self.kinds):
            name, there, here = difference
            raise StateError(
                f"The snapshot at iteration {iteration} has {self.describe(name)} as "
                f"{there or 'nothing'}, and this {self.called} as {here or 'nothing'}",
                _SAME,
            )

    def describe(self, name: str) -> str:
        """Return what a reader calls an entry."""
        raise NotImplementedError


class LoopState(SavedState):
    """What the snapshots of an elastic loop have.

    Args:
        state: What the user passed.
        steps: Shared with the loop; what refers to the loop itself would keep the state alive.
        data: The loop's place in its data, if it has one.

    Raises:
        InputError: An entry cannot be saved.
    """

    called = "loop"

    def __init__(
        self, state: MutableMapping[str, Any], steps: StepCount, data: LoopData | None
    ) -> None:
        self._state, self._steps, self._data = state, steps, data
        self.visits = Visits()
        """Of the examples that the data gives."""
        self.names = frozenset(state)
        found = [entry_of(state, name) for name in state]
        super().__init__([*found, data] if data is not None else found)
        _check_parameters(self.entries)

    @property
    def iteration(self) -> int:
        """Steps done."""
        return self._steps.done

    @property
    def epoch(self) -> float:
        """Epochs done; 0 if unknown."""
        return self._data.epoch if self._data is not None else 0.0

    def capture(self, spare: dict[str, Any] | None) -> tuple[dict[str, Any] | None, Any]:
        """Return copies of the state, and of how often examples were visited."""
        common, own = super().capture(spare)
        return common, own | {"visits": self.visits.own()}

    def check_names(self) -> None:
        """Refuse entries that were added or removed since the loop began.

        Raises:
            InputError: There are such.
        """
        if self._state.keys() != self.names:
            changed = sorted(map(str, self._state.keys() ^ self.names))
            raise InputError(
                f"The state's entries changed during the loop ({', '.join(changed):.200})",
                "give all of them before workbench.elastic(state) is called.",
            )

    def restore(
        self,
        contents: Mapping[str, SavedBytes],
        owns: Sequence[Any],
        rank: int,
        ranks: int,
        saved: SavedPieces | None = None,
    ) -> list[str]:
        """Continue from a snapshot's files, and count from there; see ``SavedState``."""
        remarks = super().restore(contents, owns, rank, ranks, saved)
        self._steps.done = owns[0]["iteration"]
        self.visits.restore([one.get("visits") for one in owns], rank)
        return remarks

    def describe(self, name: str) -> str:
        """Return what a reader calls an entry."""
        return "the loop's data" if name == DATA else f"state[{name!r}]"


def _name(entry: str, name: str) -> str:
    """Return the name of a divided array, as those of nested dictionaries are."""
    return f"{entry}.{name}" if name else entry


def difference_of(first: dict[str, str], second: dict[str, str]) -> tuple[str, str, str] | None:
    """Return the name of an entry that differs, with what it is in each; None without one."""
    for name in sorted(first.keys() | second.keys()):
        if first.get(name) != second.get(name):
            return name, first.get(name, ""), second.get(name, "")
    return None


def entry_of(state: MutableMapping[str, Any], name: Any) -> StateEntry:
    """Return how an entry is saved.

    Raises:
        InputError: It cannot be saved, or its name cannot be used.
    """
    if not isinstance(name, str) or not name or "/" in name:
        raise InputError(
            f"The state has an entry named {name!r:.80}",
            "name each entry by a text without '/', such as 'model'.",
        )
    value = state[name]
    if isinstance(value, StateEntry):  # one that says itself how it is saved
        return value
    found = _library_entry(name, value) or _plain_entry(value)
    if found is None:
        raise InputError(
            f"state[{name!r}] is a {type(value).__name__}, which has neither state_dict nor "
            "serialize, and is not a plain value",
            "leave it out, or give its values as numbers, texts, lists, dictionaries or arrays.",
        )
    return found(state, name)


def _library_entry(name: str, value: Any) -> type[StateEntry] | None:
    if isinstance(value, type):
        return None
    for one in frameworks():
        if (entry := one.state_entry(name, value)) is not None:
            return entry
    return StateDictEntry if has_state_dict(value) else None


def _plain_entry(value: Any) -> type[StateEntry] | None:
    if is_array(value):
        return ArrayEntry
    if is_generator(value):
        return GeneratorEntry
    return PlainEntry if is_plain(value) else None


def _check_parameters(entries: Mapping[str, StateEntry]) -> None:
    """Refuse an optimizer whose parameters would not be saved."""
    for name, entry in entries.items():
        if why := entry.lacks(entries):
            raise InputError(
                f"state[{name!r}] updates parameters that are in no entry of the state ({why})",
                "give its model too, as in {'model': model, 'optimizer': optimizer}.",
            )


def _are_close(first: Sequence[float], second: Sequence[float]) -> bool:
    return len(first) == len(second) and numpy.allclose(
        first, second, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True
    )


def random_states() -> dict[str, Any]:
    """Return the states of the shared generators of Python, NumPy and the frameworks."""
    found: dict[str, Any] = {"python": random.getstate(), "numpy": numpy.random.get_state()}
    for one in frameworks():
        found |= one.random_states()
    return found


def restore_random(saved: Sequence[dict[str, Any]], rank: int, seed: int) -> None:
    """Continue the random numbers of a rank.

    A rank that did not exist gets a state only if all ranks had the same one, which the code may
    rely on. A generator that cannot be read begins with another seed at each snapshot, so that no
    numbers are repeated.

    Args:
        saved: The states of each rank of the snapshot.
        seed: Differs between snapshots.
    """
    names = {name for one in saved for name in one}
    known = {name: find_saved_random([one.get(name) for one in saved], rank) for name in names}
    states = {name: state for name, state in known.items() if state is not None}
    if "python" in states:
        random.setstate(states["python"])
    if "numpy" in states:
        numpy.random.set_state(states["numpy"])
    for one in frameworks():
        one.restore_random(states, zlib.crc32(f"{seed} {rank}".encode()))
