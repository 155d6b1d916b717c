"""How Chainer's links, optimizers and iterators in the state of an elastic loop are saved.

In ``state.npz`` the names of an entry's values begin with its own name:
``chainer.serializers.load_npz("state.npz", model, path="model/")`` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import chainer
import numpy
from chainer.backends import _cpu
from chainer.serializers import DictionarySerializer, NpzDeserializer

from workbench.engine.snapshot.array_file import ARRAYS
from workbench.engine.snapshot.entries import (
    SAMPLED,
    LoopData,
    StateEntry,
    has_state_dict,
    own_of,
    sample_array,
)
from workbench.engine.snapshot.saved_bytes import StateFile
from workbench.frameworks.chainer.hidden_state import hidden_states, restore_hidden
from workbench.frameworks.chainer.iterators import (
    is_known,
    iterator_values,
    own_iterator,
    place_in_data,
    restore_iterator,
)
from workbench.frameworks.chainer.plain_values import PlainValues

_NAME = "optimizer"
_HIDDEN = "workbench/hidden"
HIDDEN_BEGIN = "the hidden states of recurrent links begin again on other ranks"
_MEANS = "workbench/held_back/"
Arrays = dict[str, Any]
"""NumPy arrays by Chainer's names for them."""


class DividingWriter(DictionarySerializer):
    """Divides what is written, and copies it, so that the training can continue.

    Args:
        common: Receives the common state; None to leave it out.
        own: Receives what is a rank's own.
        is_shared: Returns whether a name is of the common state.
        spare: Arrays that may be overwritten.
    """

    is_writer = True

    def __init__(
        self,
        common: Arrays | None,
        own: Arrays,
        is_shared: Callable[[str], bool],
        spare: Arrays,
        path: str = "",
    ) -> None:
        super().__init__({}, path)
        self._common, self._own, self._is_shared, self._spare = common, own, is_shared, spare

    def __getitem__(self, key: str) -> DividingWriter:
        path = f"{self.path}{key.strip('/')}/"
        return DividingWriter(self._common, self._own, self._is_shared, self._spare, path)

    def __call__(self, key: str, value: Any) -> Any:
        """Copy one value."""
        name = self.path + key.lstrip("/")
        if not self._is_shared(name):
            self._own[name] = copy_to_host(value)
        elif self._common is not None:
            self._common[name] = copy_to_host(value, self._spare.get(name))
        return value


def copy_to_host(value: Any, spare: Any = None) -> Any:
    """Return a copy of a value in host memory.

    Args:
        spare: An array that is overwritten if it fits.
    """
    if value is None:
        return numpy.asarray(None)
    found = numpy.asarray(_cpu._to_cpu(value))
    if found is not value:
        return found
    if spare is not None and (spare.shape, spare.dtype) == (found.shape, found.dtype):
        numpy.copyto(spare, found)
        return spare
    return found.copy()


class PlacesWriter(DictionarySerializer):
    """Notes each array of the common state, and copies nothing."""

    is_writer = True

    def __getitem__(self, key: str) -> PlacesWriter:
        return PlacesWriter(self.target, f"{self.path}{key.strip('/')}/")

    def __call__(self, key: str, value: Any) -> Any:
        """Note one value."""
        if isinstance(value, numpy.ndarray):
            self.target[self.path + key.lstrip("/")] = value
        return value


class SerializableEntry(StateEntry):
    """An object that Chainer serializes; each rank has its own."""

    kind = "a serializable object of Chainer"
    file: StateFile | None = ARRAYS

    def places(self) -> Arrays:
        """Return the arrays that all ranks have in common."""
        found: Arrays = {}
        self.write_shared(PlacesWriter(found))
        is_shared = self.find_shared()
        return {name: one for name, one in found.items() if is_shared(name)}

    def capture(self, spare: Any, *, has_common: bool) -> tuple[Any, Any]:
        """Return copies of the values that all ranks have in common, and of this rank's own."""
        common: Arrays | None = {} if has_common else None
        own: Arrays = {}
        self.write(DividingWriter(common, own, self.find_shared(), spare or {}))
        return common, own

    def write(self, writer: DictionarySerializer) -> None:
        """Write all values."""
        self.value.serialize(writer)

    def find_shared(self) -> Callable[[str], bool]:
        """Return what says whether all ranks have a value in common, by its name."""
        return lambda _: False

    def write_shared(self, writer: DictionarySerializer) -> None:
        """Write at least the values that all ranks have in common."""

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

    def capture(self, spare: Any, *, has_common: bool) -> tuple[Any, Any]:
        """Return the parameters; and persistent values, and hidden states of recurrent links."""
        common, own = super().capture(spare, has_common=has_common)
        hidden = hidden_states(self.value).items()
        return common, own | {f"{_HIDDEN}{name}": one for name, one in hidden}

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Set all values; hidden states on as many ranks as before, whose batches have a size."""
        super().restore(common, owns, rank, ranks)
        own = own_of(owns, rank)
        hidden = {
            name.removeprefix(_HIDDEN): one for name, one in own.items() if name.startswith(_HIDDEN)
        }
        if ranks != len(owns):
            return HIDDEN_BEGIN if hidden else ""
        restore_hidden(self.value, hidden)
        return ""

    def find_shared(self) -> Callable[[str], bool]:
        """Return what knows the parameters."""
        return frozenset(path.lstrip("/") for path, _ in self.value.namedparams()).__contains__

    def write_shared(self, writer: DictionarySerializer) -> None:
        """Write the parameters."""
        self.value.serialize(writer)


class ExchangeEntry(StateEntry):
    """The exchange of an optimizer's gradients: what it holds back, and what compression keeps."""

    kind = "an optimizer"
    file: StateFile | None = ARRAYS
    order = 1  # after the parameters, whose shapes it needs

    def settle(self) -> None:
        """Complete the exchange of gradients that are held back."""
        if hasattr(type(self.value), "held_back"):
            self.value.held_back()

    def common(self, spare: Any) -> Arrays:
        """Return copies of the mean gradients that are held back."""
        held = self.value.held_back() if hasattr(type(self.value), "held_back") else None
        means = enumerate(held or ())
        return {f"{_MEANS}{n}": numpy.array(mean) for n, mean in means if mean is not None}

    def own(self) -> Any:
        """Return what compression keeps on this rank."""
        exchanger = self._exchanger
        return exchanger.compression() if exchanger else None

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Continue the exchange; a rank that did not exist has compressed nothing yet."""
        optimizer = self.value
        if hasattr(optimizer, "target_params"):
            # Else the first step would only send the parameters to all ranks.
            known = [
                (path, one.data is not None) for path, one in sorted(optimizer.target.namedparams())
            ]
            object.__setattr__(optimizer, "target_params", known)
        if hasattr(type(optimizer), "hold_back"):
            amount = sum(one.data is not None for one in optimizer.target.params())
            means = [common.get(f"{_MEANS}{n}") for n in range(amount)]
            optimizer.hold_back(means if any(one is not None for one in means) else None)
        if self._exchanger and rank < len(owns):
            self._exchanger.resume(owns[rank])
        return ""

    @property
    def _exchanger(self) -> Any:
        """The exchanger of an optimizer of ours, or None."""
        return vars(self.value).get("exchanger")


class OptimizerEntry(ExchangeEntry):
    """An optimizer, also a multi-node one, with its hyperparameters and its exchange."""

    kind = "an optimizer of Chainer"

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

    def places(self) -> Arrays:
        """Return its arrays for each parameter."""
        found: Arrays = {}
        self.value.serialize(PlacesWriter(found))
        return found

    def common(self, spare: Any) -> Arrays:
        """Return copies of its values for each parameter, and of what its exchange holds back."""
        common: Arrays = {}
        self.value.serialize(DividingWriter(common, {}, lambda _: True, spare or {}))
        return common | super().common(None)

    def own(self) -> Any:
        """Return its hyperparameters, and what compression keeps on this rank."""
        own = {"first": self._plain.first, "numbers": self._plain.now()}
        return own | {"compression": super().own()}

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Set its values; a hyperparameter that the code begins with otherwise now is kept."""
        own = own_of(owns, rank)
        self.value.serialize(NpzDeserializer(common))
        self._plain.restore(own["first"], own["numbers"])
        return super().restore(common, [one["compression"] for one in owns], rank, ranks)


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
