"""Give any number of ranks the examples of a stream: of data without indices, one after another.

All ranks read the same stream, and each keeps its part of it. Every update takes the next examples,
as many on any number of ranks. The place is what the data says of its own (``state_dict``). Where
that does not lead back to the same examples, as with a buffer that shuffles, or where the data says
nothing, those before the place are read again and dropped.
"""

from __future__ import annotations

import copy
import itertools
import marshal
import random
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, Sampler

from workbench.engine.run_context import current
from workbench.engine.snapshot.entries import has_state_dict
from workbench.frameworks.torch.common_batches import (
    CommonBatches,
    RandomStates,
    Units,
    random_states,
    set_random_states,
)

CHANGED = (
    "the data gives other examples than before, so some of this epoch may be visited twice or not "
    "at all"
)
ONE_STREAM = (
    "let all ranks read the same examples, again in each epoch, in the training's own process "
    "(num_workers=0), and the loader make the batches."
)
_COMPARED = 8
"""Examples of an update that are compared to know whether it is the same."""


class CommonStream(Sampler[Any]):
    """A stream that all ranks read alike, in the place of a sampler.

    What it draws is from random numbers of its own, which follow from a seed and the epoch, because
    those of the training differ between ranks.

    Args:
        data: What may be read again from its beginning; with ``state_dict`` also from its place.
    """

    def __init__(self, data: Any, seed: int) -> None:
        self.data, self.seed = data, seed
        self._reading, self._examples = data, iter(())
        self._random: Any = None

    def __len__(self) -> int:
        """Return the examples of an epoch, as the data says it.

        Raises:
            TypeError: It does not.
        """
        return len(self.data)

    def open(self, epoch: int, mark: Mapping[str, Any] | None = None) -> None:
        """Begin an epoch, or continue it where ``mark`` was called."""
        # Each pass has an object of its own, because one that was continued may always begin there.
        # ``copy`` does not make it: a class may answer that with the attributes themselves.
        reading = self._reading = object.__new__(type(self.data))
        vars(reading).update(vars(self.data))
        if callable(begin := getattr(reading, "set_epoch", None)):
            begin(epoch)
        elif isinstance(generator := getattr(reading, "generator", None), torch.Generator):
            generator.manual_seed(epoch)  # as accelerate does
        seed = zlib.crc32(f"{self.seed} {epoch}".encode())
        self._random = _seeded(seed) if mark is None else mark["random"]
        if mark is not None:
            reading.load_state_dict(copy.deepcopy(mark["state"]))
        with self._own_random():
            self._examples = iter(reading)

    def read(self, count: int) -> list[Any]:
        """Return the next examples; fewer at the end of the epoch."""
        with self._own_random():
            return list(itertools.islice(self._examples, count))

    def mark(self) -> dict[str, Any]:
        """Return the place of the next example; nothing if the data does not say it."""
        if not has_state_dict(self._reading):
            return {}
        return {"state": copy.deepcopy(self._reading.state_dict()), "random": self._random}

    @contextmanager
    def _own_random(self) -> Iterator[None]:
        before = random_states()
        set_random_states(self._random)
        try:
            yield
        finally:
            self._random = random_states()
            set_random_states(before)


class StreamedBatches(CommonBatches):
    """The batches of a stream, which is read ahead as far as to know whether an update is the last.

    Each update has as many parts: a library counts them before it is known that the last one is
    smaller.

    Args:
        limit: Examples of an epoch at most; 0 for all.
    """

    def __init__(
        self,
        stream: CommonStream,
        most: int,
        total: int,
        place: tuple[int, int],
        drop_last: bool,
        *,
        limit: int = 0,
    ) -> None:
        super().__init__(BatchSampler(stream, 1, drop_last), most, total, *place)
        self.stream, self._limit = stream, limit
        self._marks: dict[int, dict[str, Any]] = {}
        """Where updates begin, and what they are recognized by."""
        self._last: tuple[int, int] | None = None  # updates of the epoch, examples of the last one
        self._open_at: tuple[int, int] | None = None  # epoch and update, as long as none is given
        self._held: list[Any] = []  # of that update

    def why_not_shared(self) -> str:
        """Return why ranks cannot share the stream, as a clause; empty if they can; collective."""
        self.stream.seed = _each(self.stream.seed)[0]
        read = []
        for _ in range(2):
            self._seek()
            self._held = self.stream.read(min(_COMPARED, self.total))
            read.append(_checksum(self._held))
        found = _each(read)
        if any(first != second for first, second in found):
            return "its data is not the same when it is read again"
        if any(one != read for one in found):
            return "its data gives each rank other examples"
        return ""

    @property
    def examples(self) -> int:
        """Examples of an epoch; 0 if that is unknown."""
        try:
            return min(len(self.stream), self._limit or sys.maxsize)
        except TypeError:
            return self._limit

    @property
    def updates(self) -> int:
        """Updates of an epoch; until its end is seen, any number, if its length is unknown."""
        if self._last is not None:
            return self._last[0]
        return super().updates if self.examples else sys.maxsize

    def size(self, update: int) -> int:
        """Return the examples of an update of the epoch, as far as that is known."""
        if self._last is not None and update + 1 == self._last[0]:
            return self._last[1]
        return super().size(update) if self.examples else self.total

    def _count(self, examples: int, ranks: int = 0) -> int:
        return super()._count(self.total, ranks)

    def __len__(self) -> int:
        """Return how often a rank gets examples in an epoch.

        Raises:
            TypeError: It is unknown.
        """
        len(self.stream)
        return super().__len__()

    def __iter__(self) -> Iterator[Any]:
        """Give the batches of the epoch."""
        if not self.continues:
            # What the library leaves out; it is not read.
            yield from itertools.repeat([], self.done * self.parts)
        yield from super().__iter__()

    def _read_updates(self) -> Iterator[tuple[int, Units]]:
        stream, update = self.stream, self.done
        if self._open_at != (self.epoch, update):
            self._seek()
        self._open_at, held = None, self._held
        mark = stream.mark() if update else {}
        while update < self.updates:
            batch = held + stream.read(self.size(update) - len(held))
            following = stream.mark()
            ahead = self.total if self.drop_last else 1
            held = stream.read(ahead)
            if not batch or (self.drop_last and len(batch) < self.total):
                return
            self._marks[update] = mark | {"check": _checksum(batch[:_COMPARED])}
            if len(held) < ahead:
                self._last = update + 1, len(batch)
            yield update, batch
            update, mark = update + 1, following

    def _seek(self) -> str:
        """Open the stream at the present update; return what is not exact."""
        stream, mark = self.stream, self._marks.get(self.done - 1, {})
        self._open_at, self._held = (self.epoch, self.done), []
        if "state" in mark:
            stream.open(self.epoch, mark)
            if self._recognizes(mark):
                return ""
        stream.open(self.epoch)
        for _ in range(self.done - 1):
            stream.read(self.total)
        return "" if not self.done or self._recognizes(mark) else CHANGED

    def _recognizes(self, mark: Mapping[str, Any]) -> bool:
        """Read an update again; return whether it is the one that began there."""
        found = _checksum(self.stream.read(self.total)[:_COMPARED])
        return "check" not in mark or bool(found == mark["check"])

    def advance(self) -> None:
        """Count the present update as trained on."""
        super().advance()
        self._marks.pop(self.done - 2, None)

    def end_epoch(self) -> None:
        """Count the present epoch as done, where its library ends it before its end."""
        if self.done:
            self._marks, self._last = {}, None
        super().end_epoch()

    def sample(self) -> list[float]:
        """Return numbers that differ between ranks whose examples do."""
        check = self._marks.get(self.done - 1, {}).get("check", 0)
        return self._sampled(check)

    def place(self) -> dict[str, Any]:
        """Return the place, and what the stream draws its random numbers from."""
        mark = self._marks.get(self.done - 1, {})
        return {**super().place(), "mark": mark, "stream seed": self.stream.seed}

    def set_place(self, saved: Mapping[str, Any], drawn: RandomStates | None = None) -> str:
        """Continue there; return what is not exact."""
        if self._limit:  # which was that of the first ranks
            self._limit = saved["examples"]
        super().set_place(saved, drawn)
        self.stream.seed = saved["stream seed"]
        self._marks, self._last = {self.done - 1: saved["mark"]}, None
        return self._seek()


class StreamExamples(Dataset[Any]):
    """Gives the examples of a stream, which its batches have in the place of indices."""

    def __getitem__(self, example: Any) -> Any:
        return example


def find_stream(data: Any, batches: Any) -> Any:
    """Return what a loader reads one after another; None where it knows an epoch's order.

    Args:
        data: The loader's data.
        batches: Its own batch sampler.
    """
    if isinstance(data, IterableDataset):
        return data
    own = batches.sampler if type(batches) is BatchSampler else None
    try:
        return None if own is None or len(own) >= 0 else own
    except TypeError:
        return own


def take_stream(
    loader: Any,
    stream: Any,
    most: int,
    total: int,
    place: tuple[int, int],
    drop_last: bool,
    *,
    limit: int = 0,
) -> tuple[Any, StreamedBatches] | str:
    """Return a loader of the batches of a stream, and what gives them; collective.

    Args:
        loader: A ``DataLoader`` that was to read it.
        stream: What ``find_stream`` returned.
        place: The present rank, and the number of ranks.

    Returns:
        Why it is not possible, as a clause, where it is not.
    """
    is_read = isinstance(stream, IterableDataset)
    if is_read and loader.batch_size is None:
        return "its loader makes no batches (batch_size=None)"
    if is_read and loader.num_workers:
        return (
            "its data is read in other processes, whose places in it are unknown "
            "(num_workers=0 reads it in the training's own)"
        )
    own = CommonStream(stream, torch.initial_seed())
    batches = StreamedBatches(own, most, total, place, drop_last, limit=limit)
    if why := batches.why_not_shared():
        return why
    if not is_read:
        vars(loader)["batch_sampler"] = batches
        return loader, batches
    given = {name: getattr(loader, name) for name in ("collate_fn", "generator", "pin_memory")}
    return DataLoader(StreamExamples(), batch_sampler=batches, **given), batches


def _each(value: Any) -> list[Any]:
    """Return each rank's value, if there is a run."""
    if current() is None:
        return [value]
    from workbench.engine.snapshot.peers import Peers

    return Peers().gather(value)


def _seeded(seed: int) -> tuple[Any, ...]:
    return (
        random.Random(seed).getstate(),
        numpy.random.RandomState(seed).get_state(),
        torch.Generator().manual_seed(seed).get_state().numpy(),
    )


def _checksum(value: Any, before: int = 0) -> int:
    """Return a number that follows from what an example has, as far as its kinds are known."""
    try:
        return zlib.crc32(marshal.dumps(value, 0), before)
    except ValueError:  # not only of Python's own kinds, or an array that is not in one piece
        pass
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().reshape(-1).view(torch.uint8).numpy()
    if isinstance(value, Mapping):
        value = [*value.items()]
    if isinstance(value, list | tuple):
        for one in value:
            before = _checksum(one, before)
        return before
    content = value.tobytes() if hasattr(value, "tobytes") else type(value).__name__.encode()
    return zlib.crc32(content, before)
