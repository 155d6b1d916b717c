"""Save where the iterators of a training are, and continue each epoch where it was.

On as many ranks as before, with the same parts of the data, an iterator continues exactly. On
others, or where the parts differ, the epoch's remaining examples are dealt out again; the next
epochs are the iterator's own.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy
from chainer.datasets import SubDataset, TransformDataset
from chainer.iterators import MultiprocessIterator, MultithreadIterator, SerialIterator
from chainer.iterators._statemachine import IteratorState

from workbench.core.recovery.remaining_examples import dealt, order_with_rest, smallest
from workbench.frameworks.chainer.global_order import GlobalOrder

_KNOWN = (SerialIterator, MultithreadIterator, MultiprocessIterator)
_FIELDS = ("current_position", "epoch", "is_new_epoch")
_SHARED: Any = vars(numpy.random)["random"].__self__
_WRAPPER = "_SynchronizedIterator"
_LEVELS = 8  # of data sets in data sets that are searched
NOT_SCATTERED = (
    "the data is not divided by chainermn.scatter_dataset, so some examples of this epoch may be "
    "visited twice or not at all"
)


class SubDatasetWithRest(SubDataset):
    """A part of a data set which, past its own length, has further examples of the whole."""

    def get_example(self, i: int) -> Any:
        """Return an example of the part, or one of the further ones."""
        if i < self._size:
            return super().get_example(i)
        return self._dataset[int(self._rest[i - self._size])]


class InOrder:
    """The sampler of an iterator that does not shuffle, after an epoch with another order."""

    def __call__(self, order: Any, position: int) -> Any:
        """Return the order of the next epoch."""
        return numpy.arange(len(order))


class DrawnOrder:
    """The sampler of an iterator that had read ahead, and had drawn its next epoch's order."""

    def __init__(self, owner: Any, order: Any) -> None:
        self._owner, self._order, self._after = owner, order, owner.order_sampler

    def __call__(self, order: Any, position: int) -> Any:
        """Return that order; the epochs after it have the usual sampler."""
        self._owner.order_sampler = self._after
        return self._order


def own_iterators(updater: Any) -> dict[str, Any]:
    """Return the iterators of an updater by name; ChainerMN's synchronized ones unwrapped."""
    found = getattr(updater, "_iterators", None)
    items = found.items() if isinstance(found, dict) else ()
    return {name: own_iterator(one) for name, one in items}


def own_iterator(iterator: Any) -> Any:
    """Return an iterator; the actual one of ChainerMN's synchronized iterator."""
    return iterator.actual_iterator if type(iterator).__name__ == _WRAPPER else iterator


def iterator_values(iterator: Any) -> dict[str, Any]:
    """Return copies of what Chainer saves of a known iterator; its order is None without one."""
    order = iterator._state.order
    return {name: getattr(iterator, name) for name in _FIELDS} | {
        "order": None if order is None else numpy.array(order),
        "previous_epoch_detail": iterator._previous_epoch_detail,
    }


def is_known(iterator: Any) -> bool:
    """Return whether its state can be divided among ranks."""
    return isinstance(iterator, _KNOWN)


@contextmanager
def serialize_apart(updater: Any) -> Iterator[None]:
    """Let the known iterators write without losing what they have read ahead, and load nothing."""
    # An iterator may have two names.
    patched = {id(one): one for one in own_iterators(updater).values() if is_known(one)}
    for one in patched.values():
        one.serialize = lambda serializer, one=one: _write(one, serializer)
    try:
        yield
    finally:
        for one in patched.values():
            del one.serialize


def _write(iterator: Any, serializer: Any) -> None:
    """Write what Chainer's ``serialize`` writes; ``MultiprocessIterator`` would start again."""
    if not getattr(serializer, "is_writer", False):
        return
    position, order = iterator.current_position, iterator._state.order
    if isinstance(iterator.order_sampler, GlobalOrder):
        # Chainer can only continue with this rank's part of the data, at about the same place.
        size = len(iterator.dataset)
        position, order = position * size // len(order), numpy.arange(size)
    for name in _FIELDS:
        serializer(name, position if name == "current_position" else getattr(iterator, name))
    if isinstance(iterator, MultithreadIterator):
        serializer("_order", order)
    elif order is not None:
        serializer("order", order)
    serializer("previous_epoch_detail", iterator._previous_epoch_detail)


def place_in_data(iterator: Any) -> dict[str, Any]:
    """Return what Chainer does not save: the part of the data, and what is left of the epoch."""
    part, state = part_of(iterator.dataset), iterator._state
    kept: dict[str, Any] = {"length": len(iterator.dataset), "part": None, "remaining": None}
    if (sampler := _own_random(iterator)) is not None:
        kept["sampler"] = sampler.get_state()
    ahead = _read_ahead(iterator)
    if ahead is not None and ahead.epoch == state.epoch + 1:
        kept["drawn"] = ahead.order
    if part is not None:
        order = numpy.arange(part._size) if state.order is None else numpy.asarray(state.order)
        kept["part"] = _digest(part)
        kept["remaining"] = smallest(numbers_in_whole(part, order[state.current_position :]))
        kept["has_rest"] = bool((order >= part._size).any())
    return kept


def restore_iterator(
    iterator: Any,
    saved: Sequence[dict[str, Any]],
    places: Sequence[dict[str, Any]],
    rank: int,
    ranks: int,
) -> str:
    """Continue a known iterator's epoch; return what is not exact, or nothing.

    Args:
        saved: For each rank of the snapshot, the values that Chainer saves of the iterator.
        places: For each of them, what ``place_in_data`` returned.
    """
    part, is_same = part_of(iterator.dataset), ranks == len(saved)
    state, place = (saved[rank], places[rank]) if is_same else (saved[0], places[0])
    if is_same and (sampler := _own_random(iterator)) is not None and "sampler" in place:
        sampler.set_state(place["sampler"])
    if is_same and place.get("drawn") is not None and place["length"] == len(iterator.dataset):
        owner = order_sampler_of(iterator)
        owner.order_sampler = DrawnOrder(owner, place["drawn"])
    if is_same and not place.get("has_rest") and _is_place_of(place, iterator):
        set_order(iterator, state, state["order"])
        return ""
    if part is not None and all(one["remaining"] is not None for one in places):
        lists = [one["remaining"].astype(numpy.int64) for one in places]
        is_own = is_same and "seed" not in place
        rest = lists[rank] if is_own else dealt(lists, rank, ranks)
        _continue(iterator, part, state, rest)
        return ""
    length, before = len(iterator.dataset), max(1, place["length"])
    position = min(length - 1, int(state["current_position"]) * length // before)
    set_order(iterator, {**state, "current_position": position}, iterator._state.order)
    return NOT_SCATTERED if position else ""


def _continue(iterator: Any, part: Any, saved: dict[str, Any], rest: Any) -> None:
    """Let an iterator visit examples of the whole before its own next epoch."""
    order, position = order_with_rest(len(rest), part._size)
    order[position:] += _add_rest(part, rest) - part._size
    set_order(iterator, {**saved, "current_position": position}, order)


def further_examples(part: Any, whole: int) -> int:
    """Let a part have all examples of the whole too; return the number of the first of them."""
    return _add_rest(part, numpy.arange(whole))


def _add_rest(part: Any, rest: Any) -> int:
    """Add further examples to a part; return the number of the first of them."""
    if not isinstance(part, SubDatasetWithRest):
        part.__class__ = SubDatasetWithRest
        part._rest = rest[:0]
    before = len(part._rest)  # of another iterator over the same part
    part._rest = numpy.concatenate([part._rest, rest])
    return int(part._size + before)


def set_order(iterator: Any, saved: dict[str, Any], order: Any) -> None:
    """Set an iterator's order, and the rest of its state as it was saved."""
    if order is not None and iterator.order_sampler is None:
        iterator.order_sampler = order_sampler_of(iterator).order_sampler = InOrder()
    order = None if order is None else numpy.array(order)
    state = IteratorState(
        int(saved["current_position"]), int(saved["epoch"]), bool(saved["is_new_epoch"]), order
    )
    if isinstance(iterator, MultiprocessIterator):
        iterator._reset_state(*state)
    else:
        iterator._state = state
    if isinstance(iterator, MultithreadIterator):
        iterator._next = None
    iterator._previous_epoch_detail = float(saved["previous_epoch_detail"])


def set_batch(iterator: Any, size: int) -> None:
    """Set the number of examples of this rank's batches."""
    iterator.batch_size = order_sampler_of(iterator).batch_size = size


def order_sampler_of(iterator: Any) -> Any:
    """Return the object whose sampler draws the next epoch's order."""
    is_apart = isinstance(iterator, MultiprocessIterator)
    return iterator._prefetch_loop if is_apart else iterator


def _read_ahead(iterator: Any) -> Any:
    """Return the state after what has been read ahead, or None."""
    if isinstance(iterator, MultithreadIterator):
        return None if iterator._next is None else iterator._next_state
    loop = getattr(iterator, "_prefetch_loop", None)
    return getattr(loop, "prefetch_state", None)


def _own_random(iterator: Any) -> Any:
    """Return the random state that is the iterator's own, or None."""
    found = getattr(iterator.order_sampler, "_random", None)
    is_own = isinstance(found, numpy.random.RandomState) and found is not _SHARED
    return found if is_own else None


def examples_of(part: Any) -> Any:
    """Return the numbers in the whole data set of all examples of a part."""
    return numbers_in_whole(part, numpy.arange(part._size))


def numbers_in_whole(part: Any, numbers: Any) -> Any:
    """Return the numbers in the whole data set of examples of a part."""
    inside = numbers < part._size
    places = numpy.where(inside, part._start + numbers, 0)
    whole = places if part._order is None else numpy.asarray(part._order)[places]
    if not inside.all():
        whole = whole.copy()
        whole[~inside] = part._rest[numbers[~inside] - part._size]
    return whole


def _is_place_of(place: dict[str, Any], iterator: Any) -> bool:
    part = part_of(iterator.dataset)
    digest = None if part is None else _digest(part)
    return bool(place["part"] == digest and place["length"] == len(iterator.dataset))


def part_of(dataset: Any) -> Any:
    """Return the part of a larger data set that ``dataset`` has or transforms, or None."""
    for _ in range(_LEVELS):
        if isinstance(dataset, SubDataset):
            return dataset
        if not isinstance(dataset, TransformDataset):
            return None
        dataset = dataset._dataset
    return None


def _digest(part: Any) -> tuple[int, ...]:
    """Return what tells parts of a data set apart."""
    order = b"" if part._order is None else numpy.ascontiguousarray(part._order).tobytes()
    return (len(part._dataset), part._start, part._finish, zlib.crc32(order))
