"""The state of a training: what all ranks have in common, and what each rank alone has.

The common state is the parameters and the optimizers. All the rest that Chainer serializes is a
rank's own: iterators, extensions, triggers, and persistent values such as those of batch
normalization. Both together are what ``chainer.serializers.load_npz`` reads into a trainer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
from chainer.backends import _cpu
from chainer.serializers import DictionarySerializer, NpzDeserializer

from workbench.engine.snapshot.random_state import random_states, restore_random
from workbench.frameworks.chainer.batches import BatchChange, CodeBatch, place, restore_iterators
from workbench.frameworks.chainer.hidden_state import (
    generator_states,
    generators_elsewhere,
    hidden_states,
    restore_generators,
    restore_hidden,
)
from workbench.frameworks.chainer.iterators import is_known, own_iterators, serialize_apart
from workbench.frameworks.chainer.linear_scaling import RampState
from workbench.frameworks.chainer.plain_values import Numbers, PlainValues

Arrays = dict[str, Any]
"""NumPy arrays by Chainer's names for them."""

_MEANS = "workbench/held_back/{}/"


@dataclass
class OwnState:
    """What one rank alone has.

    Args:
        values: What Chainer serializes, except the common state.
        places: For each iterator its place in the data.
        random: Random states.
        observation: The numbers that the last iteration observed.
        first: Numbers when the training began.
        numbers: The same now.
        compression: For each optimizer what compression keeps.
        ramps: For each optimizer whose rate rises with the batch, what is left of it.
        hidden: For each optimizer the hidden states of its model's recurrent links.
        generators: The states of the script's own generators of random numbers.
    """

    values: Arrays
    places: dict[str, dict[str, Any]]
    random: dict[str, Any]
    observation: dict[str, float]
    first: Numbers
    numbers: Numbers
    compression: dict[str, Any] = field(default_factory=dict)
    ramps: dict[str, RampState] = field(default_factory=dict)
    hidden: dict[str, Arrays] = field(default_factory=dict)
    generators: dict[str, Any] = field(default_factory=dict)


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
        super().__init__(own, path)
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


class LayoutWriter(DictionarySerializer):
    """Notes shape and type of each array of the common state, and copies nothing."""

    is_writer = True

    def __getitem__(self, key: str) -> LayoutWriter:
        return LayoutWriter(self.target, f"{self.path}{key.strip('/')}/")

    def __call__(self, key: str, value: Any) -> Any:
        """Note one value."""
        if isinstance(value, numpy.ndarray):
            self.target[self.path + key.lstrip("/")] = (value.shape, value.dtype)
        return value


def describe_layout(trainer: Any) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Return shape and type of the common state's arrays in host memory, by name."""
    found: dict[str, tuple[tuple[int, ...], Any]] = {}
    writer = LayoutWriter(found, "updater/")
    for name, optimizer in trainer.updater.get_all_optimizers().items():
        optimizer.serialize(writer[f"optimizer:{name}"])
        for path, parameter in optimizer.target.namedparams():
            writer(f"model:{name}{path}", parameter.array)
    return found


def capture(
    trainer: Any, plain: PlainValues, spare: Arrays | None, rank: int, ranks: int
) -> tuple[Arrays | None, OwnState]:
    """Return copies of the common state and of this rank's own.

    Args:
        spare: Arrays that may be overwritten; with None the common state is left out.
    """
    common: Arrays | None = None if spare is None else {}
    values: Arrays = {}
    optimizers = trainer.updater.get_all_optimizers()
    shared = frozenset(
        f"updater/model:{name}{path}"
        for name, optimizer in optimizers.items()
        for path, _ in optimizer.target.namedparams()
    )

    def is_shared(name: str) -> bool:
        return name in shared or name.startswith("updater/optimizer:")

    with serialize_apart(trainer.updater):
        writer = DividingWriter(common, values, is_shared, spare or {})
        trainer.serialize(writer)
    for path, part in plain.parts.items():
        part.serialize(writer[path])
    own = OwnState(
        values=values,
        places={
            name: place(one, rank, ranks)
            for name, one in own_iterators(trainer.updater).items()
            if is_known(one)
        },
        random=random_states(),
        observation=dict(_read_observed(trainer.observation)),
        first=plain.first,
        numbers=plain.now(),
        hidden={name: hidden_states(one.target) for name, one in optimizers.items()},
        generators=generator_states(trainer.updater),
    )
    for name, optimizer in optimizers.items():
        kept = capture_exchange(name, optimizer, common)
        if kept is not None:
            own.compression[name] = kept
    return common, own


def capture_exchange(name: str, optimizer: Any, common: Arrays | None) -> Any:
    """Return what compression keeps on this rank, or None.

    Gradients that are held back go into ``common``.
    """
    if common is not None and hasattr(type(optimizer), "held_back"):
        for number, mean in enumerate(optimizer.held_back() or ()):
            if mean is not None:
                common[_MEANS.format(name) + str(number)] = numpy.array(mean)
    exchanger = _exchanger(optimizer)
    return exchanger.compression() if exchanger else None


def restore(
    trainer: Any,
    plain: PlainValues,
    common: Arrays,
    owns: Sequence[OwnState],
    rank: int,
    parts: Sequence[Mapping[str, CodeBatch]],
) -> tuple[list[str], BatchChange]:
    """Continue from a snapshot, except for random numbers; return what is not exact.

    Args:
        owns: The own state of each rank of the snapshot.
        rank: This rank.
        parts: For each rank of now, what ``parts_of`` returned of its updater.
    """
    own = owns[rank] if rank < len(owns) else owns[0]
    values = common | own.values
    updater = trainer.updater
    with serialize_apart(updater):
        updater.serialize(NpzDeserializer(values, "updater/"))
    _restore_rest(trainer, plain, values)
    trainer.observation = dict(own.observation)
    for name, optimizer in updater.get_all_optimizers().items():
        kept = own.compression.get(name) if rank < len(owns) else None
        restore_exchange(name, optimizer, common, kept, existed=rank < len(owns))
    saved = [{name: _iterator_values(name, one.values) for name in one.places} for one in owns]
    places = [one.places for one in owns]
    plain.restore(own.first, own.numbers, ranks=len(parts) / len(owns))
    remarks, change = restore_iterators(updater, saved, places, parts, rank)
    return remarks + _restore_unsaved(updater, owns, rank, len(parts)), change


def _restore_unsaved(updater: Any, owns: Sequence[OwnState], rank: int, ranks: int) -> list[str]:
    """Continue what Chainer itself does not save; return what begins again."""
    remarks = []
    # Snapshots of earlier versions have none.
    hidden = vars(owns[rank if rank < len(owns) else 0]).get("hidden", {})
    if ranks == len(owns):
        for name, optimizer in updater.get_all_optimizers().items():
            restore_hidden(optimizer.target, hidden.get(name, {}))
    elif any(hidden.values()):
        remarks.append("the hidden states of recurrent links begin again on other ranks")
    restore_generators(updater, [vars(one).get("generators", {}) for one in owns], rank)
    if place := generators_elsewhere(updater):
        remarks.append(f"the generator {place} draws in other processes, and begins again")
    return remarks


def restore_random_states(owns: Sequence[OwnState], rank: int, iteration: int) -> None:
    """Continue the random numbers of this rank."""
    restore_random([one.random for one in owns], rank, iteration)


def _restore_rest(trainer: Any, plain: PlainValues, values: Arrays) -> None:
    """Restore extensions and triggers; the code may have others now."""
    parts = {"stop_trigger/": trainer.stop_trigger, **plain.parts}
    for name, entry in trainer._extensions.items():
        parts[f"extensions/{name}/"] = entry.extension
        parts[f"extension_triggers/{name}/"] = entry.trigger
    for path, one in parts.items():
        if hasattr(one, "serialize") and any(key.startswith(path) for key in values):
            one.serialize(NpzDeserializer(values, path, strict=False))
    elapsed = values.get("_snapshot_elapsed_time")
    trainer._snapshot_elapsed_time = 0.0 if elapsed is None else float(elapsed)


def restore_exchange(
    name: str, optimizer: Any, common: Arrays, kept: Any, *, existed: bool
) -> None:
    """Continue the exchange of an optimizer's gradients.

    Args:
        kept: What compression kept on this rank.
        existed: Whether the snapshot has this rank.
    """
    if hasattr(optimizer, "target_params"):
        # Else the first step would only send the parameters to all ranks.
        known = [
            (path, one.data is not None) for path, one in sorted(optimizer.target.namedparams())
        ]
        object.__setattr__(optimizer, "target_params", known)
    if hasattr(type(optimizer), "hold_back"):
        path = _MEANS.format(name)
        means = {key.removeprefix(path): one for key, one in common.items() if key.startswith(path)}
        amount = sum(one.data is not None for one in optimizer.target.params())
        optimizer.hold_back([means.get(str(n)) for n in range(amount)] if means else None)
    exchanger = _exchanger(optimizer)
    if exchanger and existed:
        exchanger.resume(kept)


def _exchanger(optimizer: Any) -> Any:
    """Return the exchanger of an optimizer of ours, or None."""
    return vars(optimizer).get("exchanger")


def _iterator_values(name: str, values: Arrays) -> dict[str, Any]:
    path = f"updater/iterator:{name}/"
    found = {key.removeprefix(path): one for key, one in values.items() if key.startswith(path)}
    order = found.get("order", found.get("_order"))
    found["order"] = None if order is None or order[()] is None else order
    return found


def _read_observed(observation: dict[str, Any]) -> list[tuple[str, float]]:
    """Return the observed numbers; a trigger may look at them before the next iteration."""
    found = []
    for name, value in observation.items():
        number = getattr(value, "array", value)
        if getattr(number, "size", 1) == 1:
            try:
                found.append((name, float(number)))
            except (TypeError, ValueError):
                continue  # extensions may observe anything
    return found


def unsavable(updater: Any, ranks: int) -> str:
    """Return why a training on ``ranks`` ranks cannot be saved; empty if it can."""
    optimizers: dict[str, Any] = getattr(updater, "get_all_optimizers", dict)()
    if not optimizers:
        return "its updater has no optimizer"
    if ranks == 1:
        return ""
    module: Any = sys.modules.get("chainermn.optimizers")
    kinds = (module._MultiNodeOptimizer, module._DoubleBufferingOptimizer) if module else ()
    for name, one in optimizers.items():
        if not isinstance(one, kinds):
            return f"its optimizer {name!r} is not ChainerMN's multi-node optimizer"
        if one.communicator.size != ranks:
            return f"its optimizer {name!r} has {one.communicator.size} of {ranks} ranks"
    return ""
