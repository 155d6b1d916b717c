"""Save what Chainer does not serialize: hidden states of recurrent links, and own generators.

A generator of random numbers is found where a training's data comes from: in the attributes of the
updater, its iterators, their data sets and their functions, and in what such a function uses.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator, Sequence
from typing import Any

import chainer
import numpy
from chainer import links
from chainer.backends import _cpu
from chainer.iterators import MultiprocessIterator

from workbench.engine.snapshot.entries import (
    find_saved_random,
    is_generator,
    read_generator,
    set_generator,
)
from workbench.frameworks.chainer.iterators import own_iterators

_RECURRENT = (
    links.LSTM,
    links.StatefulGRU,
    links.StatefulMGU,
    links.StatefulPeepholeLSTM,
    links.StatefulZoneoutLSTM,
)
_STATES = ("h", "c")
_LEVELS = 6  # of objects in objects that are searched
# Those of NumPy and of Python, which are saved with each snapshot.
_SHARED: tuple[Any, ...] = (vars(numpy.random)["random"].__self__, vars(random)["random"].__self__)
Found = dict[str, Any]


def hidden_states(target: Any) -> Found:
    """Return copies of the hidden states of a model's links, by their names."""
    return {
        f"{path}/{name}": numpy.array(_cpu._to_cpu(getattr(state, "array", state)))
        for path, link in _find_recurrent(target)
        for name in _STATES
        if (state := getattr(link, name, None)) is not None
    }


def restore_hidden(target: Any, saved: Found) -> None:
    """Continue with hidden states; a link without one begins as it is."""
    for path, link in _find_recurrent(target):
        for name in _STATES:
            if (state := saved.get(f"{path}/{name}")) is not None:
                setattr(link, name, chainer.Variable(link.device.send(state)))


def _find_recurrent(target: Any) -> list[tuple[str, Any]]:
    return [(path, one) for path, one in target.namedlinks() if isinstance(one, _RECURRENT)]


def generator_states(updater: Any) -> Found:
    """Return the states of the script's own generators, by where they were found."""
    return {
        place: (type(one).__name__, read_generator(one))
        for place, one in _generators(updater).items()
    }


def restore_generators(updater: Any, saved: Sequence[Found], rank: int) -> None:
    """Continue the script's own generators.

    Args:
        saved: What ``generator_states`` returned on each rank of the snapshot.
    """
    for place, one in _generators(updater).items():
        state = find_saved_random([there.get(place) for there in saved], rank)
        if state is not None and state[0] == type(one).__name__:
            set_generator(one, state[1])


def generators_elsewhere(updater: Any) -> str:
    """Return which generator draws in other processes, where its state is not known; or empty."""
    for name, iterator in own_iterators(updater).items():
        if isinstance(iterator, MultiprocessIterator):
            found = dict(_within(iterator.dataset, name, _LEVELS, set()))
            for place in found:
                return place
    return ""


def _generators(updater: Any) -> Found:
    iterators = own_iterators(updater)
    roots: list[tuple[str, Any]] = [
        (name, one) for name, one in iterators.items() if not isinstance(one, MultiprocessIterator)
    ]
    roots += [(f"{name}/dataset", getattr(one, "dataset", None)) for name, one in roots]
    roots.append(("updater", updater))
    found: Found = {}
    seen = {id(one) for one in iterators.values()}
    for place, root in roots:
        seen.discard(id(root))
        for inner, one in _within(root, place, _LEVELS, seen):
            found[inner] = one
    return found


def _within(owner: Any, place: str, levels: int, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield the generators in an object, with their places."""
    if is_generator(owner):
        if not any(owner is one for one in _SHARED):
            yield place, owner
        return
    if not levels or id(owner) in seen:
        return
    seen.add(id(owner))
    for name, one in _parts(owner):
        if is_generator(one) or _is_searched(one):
            yield from _within(one, f"{place}/{name}", levels - 1, seen)


def _parts(owner: Any) -> list[tuple[str, Any]]:
    """Return what an object has, or a function uses."""
    if isinstance(owner, functools.partial):
        named = [*owner.keywords.items()]
        return [("function", owner.func), *_number_values(owner.args), *named]
    if isinstance(owner, list | tuple):
        return _number_values(owner)
    if (bound := getattr(owner, "__self__", None)) is not None:
        return [("self", bound), ("function", getattr(owner, "__func__", None))]
    if (code := getattr(owner, "__code__", None)) is not None:
        cells = zip(code.co_freevars, owner.__closure__ or (), strict=False)
        inside = [(name, cell.cell_contents) for name, cell in cells if _has_contents(cell)]
        used = owner.__globals__
        defaults = _number_values(owner.__defaults__ or ())
        return [*inside, *defaults, *((n, used[n]) for n in code.co_names if n in used)]
    return [*getattr(owner, "__dict__", {}).items()]


def _number_values(values: Sequence[Any]) -> list[tuple[str, Any]]:
    return [(str(n), one) for n, one in enumerate(values[:_LEVELS])]


def _has_contents(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # an empty one raises
    except ValueError:
        return False
    return True


def _is_searched(one: Any) -> bool:
    """Return whether an object may be the script's own, or one of Chainer's data sets."""
    if isinstance(one, type | numpy.ndarray | chainer.Link | chainer.Optimizer):
        return False
    if isinstance(one, functools.partial | list | tuple):
        return True
    kind = one if callable(one) and hasattr(one, "__module__") else type(one)
    module = str(getattr(kind, "__module__", "")).partition(".")
    return module[0] not in {"builtins", "numpy", "mpi4py"} and (
        module[0] != "chainer" or module[2].startswith("datasets")
    )
