"""How Chainer's links, optimizers and iterators in the state of an elastic loop are saved.

In ``state.npz`` the names of an entry's values begin with its own name:
``chainer.serializers.load_npz("state.npz", model, path="model/")`` reads it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import chainer
from chainer.serializers import NpzDeserializer

from workbench.engine.elastic.entries import (
    ARRAYS,
    SAMPLED,
    LoopData,
    StateEntry,
    has_state_dict,
    own_of,
    sample_array,
)
from workbench.engine.snapshot.writer import new_arrays
from workbench.frameworks.chainer.hidden_state import hidden_states, restore_hidden
from workbench.frameworks.chainer.iterators import (
    is_known,
    iterator_values,
    own_iterator,
    place_in_data,
    restore_iterator,
)
from workbench.frameworks.chainer.plain_values import PlainValues
from workbench.frameworks.chainer.trainer_state import (
    Arrays,
    DividingWriter,
    LayoutWriter,
    capture_exchange,
    restore_exchange,
)

_NAME = "optimizer"
_HIDDEN = "workbench/hidden"


class SerializableEntry(StateEntry):
    """An object that Chainer serializes; each rank has its own."""

    kind = "a serializable object of Chainer"
    file = ARRAYS

    def memory(self) -> Callable[[], Arrays]:
        """Return what allocates arrays for the values that all ranks have in common."""
        shared, found = self.find_shared(), dict[str, Any]()
        if shared:
            self.value.serialize(LayoutWriter(found))
        return functools.partial(
            new_arrays, {name: one for name, one in found.items() if name in shared}
        )

    def common(self, spare: Any) -> Arrays:
        """Return copies of the values that all ranks have in common."""
        common: Arrays = {}
        self._write(common, {}, spare or {})
        return common

    def own(self) -> Any:
        """Return copies of the values that this rank alone has."""
        own: Arrays = {}
        self._write(None, own, {})
        return own

    def _write(self, common: Arrays | None, own: Arrays, spare: Arrays) -> None:
        shared = self.find_shared()
        self.value.serialize(DividingWriter(common, own, shared.__contains__, spare))

    def find_shared(self) -> frozenset[str]:
        """Return the names of the values that all ranks have in common."""
        return frozenset()

    def readable(self, common: Any, own: Any) -> Any:
        """Return all values by name."""
        return common | own

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Set all values."""
        self.value.serialize(NpzDeserializer(common | own_of(owns, rank)))
        return ""


class LinkEntry(SerializableEntry):
    """A link: its parameters are equal on all ranks, its persistent values are a rank's own."""

    kind = "a link"

    def sample(self) -> list[float]:
        """Return some numbers of the parameters."""
        first = sorted(self.value.namedparams())[:SAMPLED]
        return [number for _, one in first for number in sample_array(one.array)]

    def own(self) -> Any:
        """Return the persistent values, and the hidden states of recurrent links."""
        hidden = hidden_states(self.value).items()
        return super().own() | {f"{_HIDDEN}{name}": one for name, one in hidden}

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Set all values; hidden states on as many ranks as before, whose batches have a size."""
        super().restore(common, owns, rank, ranks)
        own = own_of(owns, rank)
        hidden = {
            name.removeprefix(_HIDDEN): one for name, one in own.items() if name.startswith(_HIDDEN)
        }
        if ranks != len(owns):
            return (
                "the hidden states of recurrent links begin again on other ranks" if hidden else ""
            )
        restore_hidden(self.value, hidden)
        return ""

    def find_shared(self) -> frozenset[str]:
        """Return the names of the parameters."""
        return frozenset(path.lstrip("/") for path, _ in self.value.namedparams())


class OptimizerEntry(StateEntry):
    """An optimizer, also a multi-node one, with its hyperparameters and its exchange."""

    kind = "an optimizer of Chainer"
    file = ARRAYS
    order = 1  # after the parameters, whose shapes it needs

    def __init__(self, state: MutableMapping[str, Any], name: str) -> None:
        super().__init__(state, name)
        self._plain = PlainValues({_NAME: self.value}, {})

    def lacks(self, entries: Mapping[str, StateEntry]) -> str:
        """Return the first parameter of its link that no link of the state has."""
        links = [one.value for one in entries.values() if isinstance(one, LinkEntry)]
        known = {id(parameter) for link in links for parameter in link.params()}
        target = self.value.target
        named = [] if target is None else sorted(target.namedparams())
        return next((path for path, parameter in named if id(parameter) not in known), "")

    def settle(self) -> None:
        """Complete the exchange of gradients that are held back."""
        if hasattr(type(self.value), "held_back"):
            self.value.held_back()

    def memory(self) -> Callable[[], Arrays]:
        """Return what allocates arrays for its values."""
        found: dict[str, Any] = {}
        self.value.serialize(LayoutWriter(found))
        return functools.partial(new_arrays, found)

    def common(self, spare: Any) -> Arrays:
        """Return copies of its values for each parameter."""
        common: Arrays = {}
        self.value.serialize(DividingWriter(common, {}, lambda _: True, spare or {}))
        capture_exchange(_NAME, self.value, common)
        return common

    def own(self) -> Any:
        """Return its hyperparameters, and what compression keeps on this rank."""
        return {
            "first": self._plain.first,
            "numbers": self._plain.now(),
            "compression": capture_exchange(_NAME, self.value, None),
        }

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Set its values; a hyperparameter that the code begins with otherwise now is kept."""
        own, existed = own_of(owns, rank), rank < len(owns)
        self.value.serialize(NpzDeserializer(common))
        self._plain.restore(own["first"], own["numbers"])
        kept = own["compression"] if existed else None
        restore_exchange(_NAME, self.value, common, kept, existed=existed)
        return ""


class IteratorEntry(StateEntry):
    """An iterator of Chainer over a rank's part of the data: its epoch continues where it was."""

    kind = "an iterator of Chainer"
    order = 2

    def own(self) -> Any:
        """Return its place in the data."""
        iterator = own_iterator(self.value)
        return {"values": iterator_values(iterator), "place": place_in_data(iterator)}

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Continue the epoch; on other ranks its remaining examples are dealt out again."""
        values, places = [one["values"] for one in owns], [one["place"] for one in owns]
        return restore_iterator(own_iterator(self.value), values, places, rank, ranks)


class ChainerData(LoopData):
    """An iterator of Chainer that gives an elastic loop its batches."""

    kind = IteratorEntry.kind

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self._entry = IteratorEntry(self._state, self.name)

    @property
    def epoch(self) -> float:
        """Epochs done, such as 1.5."""
        return float(self.value.epoch_detail)

    @property
    def epochs_before(self) -> int:
        """Whole epochs that were done before the batch that was given last."""
        return int(self.value.epoch) - bool(self.value.is_new_epoch)

    @property
    def ends_epoch(self) -> bool:
        """Whether the batch that was given last is the last of its epoch."""
        return bool(self.value.is_new_epoch)

    def give(self) -> tuple[Any, float]:
        """Return the next batch."""
        return next(self.value), 1.0

    def own(self) -> Any:
        """Return its place in the data."""
        return self._entry.own()

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Continue the epoch; on other ranks its remaining examples are dealt out again."""
        return self._entry.restore(common, owns, rank, ranks)


def is_iterator(value: Any) -> bool:
    """Return whether it is an iterator whose place can be saved."""
    return is_known(own_iterator(value))


def chainer_entry(value: Any) -> type[StateEntry] | None:
    """Return how an object of Chainer is saved, or None if it is none."""
    if has_state_dict(value):
        return None
    if isinstance(value, chainer.Link):
        return LinkEntry
    if isinstance(vars(value).get("actual_optimizer", value), chainer.Optimizer):
        return OptimizerEntry
    if is_known(own_iterator(value)):
        return IteratorEntry
    return SerializableEntry
