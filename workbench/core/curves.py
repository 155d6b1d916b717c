"""Downsample curves to buckets that keep every extreme, and encode them for the store."""

from __future__ import annotations

import copy
import io
import json
import math
import zipfile
from array import array
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workbench.core.moment import is_due

_NAMES = "names"

FEW = 16  # buckets for which a loop costs less than NumPy's calls

DEFAULT_CAPACITY = 400
PAGE_CAPACITY = 2_000  # buckets of a curve on a page: more than a screen has columns
PATIENCE_SECONDS = 1.0  # for ranks that are behind
_ROWS = 4  # initial capacity for ranks
_FEW_VALUES = 200  # that a loop adds at less cost than NumPy's calls
_NO_ENDS = (math.nan, math.nan)


class Curve:
    """One metric over iterations, from all ranks, in bounded memory.

    Up to ``capacity`` iterations, each has its own bucket and nothing is lost. Then buckets are
    merged in pairs, so minimum, maximum and each rank's mean stay exact.

    Args:
        capacity: Largest number of buckets.
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self.capacity = capacity
        self.width = 1
        self.nonfinite = 0
        self.nonfinite_first = -1
        self._merged = 1  # version of the last merge, which replaces all earlier buckets
        self._front: int | None = None  # the iteration up to which buckets are offered; None: all
        self._newest = -1
        self._seen = deque[tuple[float, int]]()  # the newest iteration, and when it was seen
        # The slots that changed after version ``_late_since``, the last ones last, with their
        # versions; and those that may be beyond the front, or None if any may.
        self._late: dict[int, int] = {}
        self._late_since: float = math.inf
        self._waiting: set[int] | None = None
        self._rows: dict[int, int] = {}
        self._slots: dict[int, int] = {}
        self._index = np.zeros(0, np.int64)
        self._first = np.zeros(0, np.int64)
        self._last = np.zeros(0, np.int64)
        self._low = np.zeros(0)
        self._high = np.zeros(0)
        self._changed = np.zeros(0, np.int64)
        self._total = np.zeros((_ROWS, 0))
        self._count = np.zeros((_ROWS, 0))
        self._reached = np.full(_ROWS, -1)  # last iteration of each rank

    def __repr__(self) -> str:
        return f"<Curve {len(self)} buckets of {self.width} iterations>"

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def ranks(self) -> set[int]:
        """The ranks that reported."""
        return set(self._rows)

    def add(
        self, ranks: ArrayLike, iterations: ArrayLike, values: ArrayLike, version: int = 0
    ) -> None:
        """Add values, in any order of iterations.

        Args:
            ranks: Each value's rank, shape (n,); or one for all.
            iterations: Each value's iteration, shape (n,), not negative.
            values: The values, shape (n,).
            version: Stored with the changed buckets, for comparison by ``buckets``.
        """
        if (
            isinstance(ranks, list)
            and isinstance(iterations, list)
            and isinstance(values, list)
            and len(values) <= _FEW_VALUES
        ):
            self._add_few(ranks, iterations, values, version)
            return
        where = np.atleast_1d(np.asarray(iterations, np.int64))
        value = np.atleast_1d(np.asarray(values, np.float64))
        if not len(where):
            return
        self._forget_late()
        row = self._rows_of(np.broadcast_to(np.asarray(ranks, np.int64), where.shape))
        slot = self._slots_of(where, version)
        np.minimum.at(self._first, slot, where)
        np.maximum.at(self._last, slot, where)
        np.maximum.at(self._reached, row, where)
        self._changed[slot] = version
        finite = np.isfinite(value)
        if not finite.all():
            self._note_nonfinite(where[~finite].tolist())
            row, slot, value = row[finite], slot[finite], value[finite]
        np.minimum.at(self._low, slot, value)
        np.maximum.at(self._high, slot, value)
        with np.errstate(over="ignore"):  # a mean beyond floats is inf, and drawn as a gap
            np.add.at(self._total, (row, slot), value)
        np.add.at(self._count, (row, slot), 1)

    def _add_few(
        self, ranks: list[int], iterations: list[int], values: list[float], version: int
    ) -> None:
        rows = self._rows
        if not rows.keys() >= set(ranks):
            self._rows_of(np.array(ranks, np.int64))
        places = [iteration // self.width for iteration in iterations]
        if new := set(places).difference(self._slots):
            if len(self) + len(new) > self.capacity:
                self._make_room(np.array(iterations, np.int64), version)
                places = [iteration // self.width for iteration in iterations]
                new = set(places).difference(self._slots)
            self._add_buckets(sorted(new))
        self._late_since = min(self._late_since, version - 1)
        cells = defaultdict[tuple[int, int], tuple[list[int], list[float]]](lambda: ([], []))
        for rank, place, iteration, value in zip(ranks, places, iterations, values, strict=True):
            where, found = cells[rank, place]
            where.append(iteration)
            found.append(value)
        for (rank, place), (where, found) in cells.items():
            row, slot = rows[rank], self._slots[place]
            self._first[slot] = min(self._first.item(slot), *where)
            self._last[slot] = max(self._last.item(slot), *where)
            self._reached[row] = max(self._reached.item(row), *where)
            self._touch(slot, version)
            finite = [value for value in found if math.isfinite(value)]
            if len(finite) < len(found):
                pairs = zip(where, found, strict=True)
                self._note_nonfinite([at for at, value in pairs if not math.isfinite(value)])
            if finite:
                self._low[slot] = min(self._low.item(slot), *finite)
                self._high[slot] = max(self._high.item(slot), *finite)
                self._total[row, slot] = sum(finite, self._total.item(row, slot))
                self._count[row, slot] += len(finite)

    def _touch(self, slot: int, version: int) -> None:
        self._changed[slot] = version
        self._late.pop(slot, None)
        self._late[slot] = version
        if self._waiting is not None:
            self._waiting.add(slot)

    def _forget_late(self) -> None:
        """Note that many buckets change, or get other slots."""
        self._late, self._late_since, self._waiting = {}, math.inf, None

    def settle(self, now: float, version: int, *, whole: bool = False) -> bool:
        """Withhold the newest buckets until all ranks have reported them, or had the time to.

        Reports of ranks arrive at different moments, and a median that lacks some of them would
        jump to and fro.

        Args:
            now: Seconds of any clock.
            version: Stored with the buckets that are offered from now on.
            whole: Whether to offer all buckets.

        Returns:
            Whether there are newly offered buckets.
        """
        reached = self._reached[: len(self._rows)].tolist()
        newest = max(reached, default=-1)
        if newest > self._newest:
            self._newest = newest
            self._seen.append((now, newest))
        front = newest if whole else min(reached, default=newest)
        while self._seen and is_due(self._seen[0][0], now, PATIENCE_SECONDS):
            front = max(front, self._seen.popleft()[1])
        before = -1 if self._front is None else self._front
        self._front = max(front, before)
        if self._front == before:
            return False
        offered = self._find_offered(before, self._front)
        for slot in offered:
            self._touch(slot, version)
        return len(offered) > 0

    def _find_offered(self, before: int, front: int) -> list[int]:
        """Return the slots whose last iteration is after one and up to another."""
        if self._waiting is None:
            self._waiting = {*np.flatnonzero(self._last[: len(self)] > before).tolist()}
        passed = [slot for slot in self._waiting if self._last.item(slot) <= front]
        self._waiting.difference_update(passed)
        return [slot for slot in passed if self._last.item(slot) > before]

    def trace(self) -> Trace:
        """Return the curve in order of iterations."""
        buckets = self.buckets()
        return Trace(
            iterations=tuple(buckets.x.tolist()),
            mean=tuple(buckets.mean.tolist()),
            low=tuple(buckets.low.tolist()),
            high=tuple(buckets.high.tolist()),
        )

    def buckets(self, since: int = -1, marked: int = -1) -> Buckets:
        """Return the buckets that changed after version ``since``, or all if they were merged.

        Those that ``settle`` withholds are left out.

        Args:
            marked: The rank whose means are requested; -1 for none.
        """
        used = len(self)
        fresh = since < self._merged
        if not fresh and since >= self._late_since:
            slots = [*takewhile(lambda slot: self._late[slot] > since, reversed(self._late))]
            if len(slots) <= FEW:
                return self._few_buckets(slots, marked)
        chosen = np.arange(used) if fresh else np.flatnonzero(self._changed[:used] > since)
        if self._front is not None:
            chosen = chosen[self._last[chosen] <= self._front]
        chosen = chosen[np.argsort(self._index[chosen], kind="stable")]
        total, count = self._total[:, chosen], self._count[:, chosen]
        amount = count.sum(axis=0)
        empty = amount == 0
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            means = total / count
            mean = total.sum(axis=0) / amount
        row = self._rows.get(marked)
        return Buckets(
            x=(self._first[chosen] + self._last[chosen]) / 2,
            index=self._index[chosen],
            low=np.where(empty, np.nan, self._low[chosen]),
            median=_median(means),
            high=np.where(empty, np.nan, self._high[chosen]),
            mean=mean,
            marked=np.full(len(chosen), np.nan) if row is None else means[row],
            width=self.width,
            fresh=fresh,
        )

    def _few_buckets(self, slots: list[int], marked: int) -> Buckets:
        row, front = self._rows.get(marked), math.inf if self._front is None else self._front
        found = sorted(
            (self._index.item(slot), *self._values(slot, row))
            for slot in slots
            if self._last.item(slot) <= front
        )
        index, *columns = zip(*found, strict=True) if found else [()] * 7
        x, low, median, high, mean, of_marked = (array("d", column) for column in columns)
        return Buckets(
            x=x,
            index=array("q", index),
            low=low,
            median=median,
            high=high,
            mean=mean,
            marked=of_marked,
            width=self.width,
            fresh=False,
        )

    def _values(self, slot: int, marked: int | None) -> tuple[float, ...]:
        """Return x, low, median, high, mean and marked mean of the bucket in ``slot``."""
        count = self._count[:, slot].tolist()
        total = self._total[:, slot].tolist()
        means = [t / c if c else math.nan for t, c in zip(total, count, strict=True)]
        amount = sum(count)
        low, high = (self._low.item(slot), self._high.item(slot)) if amount else _NO_ENDS
        known = sorted(mean for mean in means if not math.isnan(mean))
        middle = len(known) // 2
        return (
            (self._first.item(slot) + self._last.item(slot)) / 2,
            low,
            known[(len(known) - 1) // 2] / 2 + known[middle] / 2 if known else math.nan,
            high,
            sum(total) / amount if amount else math.nan,
            math.nan if marked is None else means[marked],
        )

    def ends(self) -> Ends | None:
        """Return the ends of the buckets that ``buckets`` offers; None without a finite value.

        Their values are ``Buckets.median``, but no other bucket is computed.
        """
        if (quick := self._quick_ends()) is not None:
            return quick
        used = len(self)
        offered = self._last[:used] <= (np.inf if self._front is None else self._front)
        finite = offered & (self._count[:, :used].sum(axis=0) > 0)
        finite &= np.isfinite(self._total[:, :used]).all(axis=0)
        if not finite.any():
            return None
        places = np.flatnonzero(finite)
        index = self._index[places]
        chosen = places[[int(index.argmin()), int(index.argmax())]]
        with np.errstate(divide="ignore", invalid="ignore"):
            values = _median(self._total[:, chosen] / self._count[:, chosen]).tolist()
        x = ((self._first[chosen] + self._last[chosen]) / 2).tolist()
        is_finite = bool(self._index[chosen[1]] == self._index[:used][offered].max())
        return Ends((x[0], values[0]), (x[1], values[1]), is_finite)

    def _quick_ends(self) -> Ends | None:
        """Return ``ends`` if buckets near both ends are offered and finite; else None."""
        if not self._slots:
            return None
        index = self._index[: len(self)]
        first, last = int(index.min()), int(index.max())
        begun = self._end(range(first, first + FEW))
        ended = self._end(range(last, last - FEW, -1))
        return Ends(begun, ended, True) if begun and ended else None

    def _end(self, places: range) -> tuple[float, float] | None:
        """Return x and median of the first offered bucket; None if there is none, or no median."""
        front = math.inf if self._front is None else self._front
        for place in places:
            slot = self._slots.get(place)
            if slot is not None and self._last.item(slot) <= front:
                x, _, median, _, mean, _ = self._values(slot, None)
                return (x, median) if math.isfinite(mean) else None
        return None

    def thin(self, capacity: int) -> Curve:
        """Return a copy with at most ``capacity`` buckets."""
        thin = copy.deepcopy(self)
        thin.capacity = capacity
        thin._make_room(np.zeros(0, np.int64), self._merged)
        return thin

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was added so far as arrays, which ``from_arrays`` reads."""
        used, rows = len(self), len(self._rows)
        counts = (self.capacity, self.width, self.nonfinite, self.nonfinite_first)
        return {
            "counts": np.array(counts, np.int64),
            "ranks": np.array([*self._rows], np.int64),
            "reached": self._reached[:rows],
            "index": self._index[:used],
            "first": self._first[:used],
            "last": self._last[:used],
            "low": self._low[:used],
            "high": self._high[:used],
            "total": self._total[:rows, :used],
            "count": self._count[:rows, :used],
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], version: int = 0) -> Curve:
        """Return the curve whose ``arrays`` these are.

        Args:
            version: Stored with all buckets.

        Raises:
            ValueError: They are not those of a curve.
        """
        try:
            capacity, width, nonfinite, first = arrays["counts"].tolist()
            ranks, index = arrays["ranks"].tolist(), arrays["index"].tolist()
            used, rows = (len(index),), (len(ranks),)
            shapes = dict.fromkeys(("first", "last", "low", "high"), used) | {
                "reached": rows, "total": rows + used, "count": rows + used
            }  # fmt: skip
            if any(arrays[name].shape != shape for name, shape in shapes.items()):
                raise ValueError("the arrays differ in length")
        except (KeyError, TypeError) as error:
            raise ValueError("no arrays of a curve") from error
        curve = cls(capacity)
        curve.width, curve.nonfinite, curve.nonfinite_first = width, nonfinite, first
        curve._merged = version
        curve._rows = {rank: row for row, rank in enumerate(ranks)}
        curve._slots = {place: slot for slot, place in enumerate(index)}
        curve._changed = np.full(used, version, np.int64)
        for name in ("index", "first", "last", "reached"):
            setattr(curve, f"_{name}", arrays[name].astype(np.int64))
        for name in ("low", "high", "total", "count"):
            setattr(curve, f"_{name}", arrays[name].astype(np.float64))
        return curve

    def _rows_of(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row of each rank; new rows are added."""
        known = self._rows
        for rank in set(ranks.tolist()).difference(known):
            known[rank] = len(known)
        if len(known) > len(self._total):
            more = ((0, max(len(known), 2 * len(self._total)) - len(self._total)), (0, 0))
            self._total, self._count = np.pad(self._total, more), np.pad(self._count, more)
            self._reached = np.pad(self._reached, more[0], constant_values=-1)
        return np.fromiter(map(known.__getitem__, ranks.tolist()), np.intp, len(ranks))

    def _slots_of(self, iterations: NDArray[np.int64], version: int) -> NDArray[np.int64]:
        """Return the slot of each iteration's bucket; new slots are added."""
        index, places = np.unique(iterations // self.width, return_inverse=True)
        new = set(index.tolist()).difference(self._slots)
        if len(self._slots) + len(new) > self.capacity:
            self._make_room(iterations, version)
            index, places = np.unique(iterations // self.width, return_inverse=True)
            new = set(index.tolist()).difference(self._slots)
        if new:
            self._add_buckets(sorted(new))
        slots = np.fromiter(map(self._slots.__getitem__, index.tolist()), np.intp, len(index))
        found: NDArray[np.int64] = slots[places]
        return found

    def _add_buckets(self, new: list[int]) -> None:
        used = len(self._slots)
        self._slots.update(zip(new, range(used, used + len(new)), strict=True))
        if len(self._slots) > len(self._index):
            self._grow(min(self.capacity, max(64, 2 * len(self._slots))))
        self._index[used : len(self._slots)] = new

    def _grow(self, size: int) -> None:
        more = size - len(self._index)
        self._index = np.pad(self._index, (0, more))
        self._first = np.pad(self._first, (0, more), constant_values=np.iinfo(np.int64).max)
        self._last = np.pad(self._last, (0, more), constant_values=-1)
        self._low = np.pad(self._low, (0, more), constant_values=np.inf)
        self._high = np.pad(self._high, (0, more), constant_values=-np.inf)
        self._changed = np.pad(self._changed, (0, more))
        self._total = np.pad(self._total, ((0, 0), (0, more)))
        self._count = np.pad(self._count, ((0, 0), (0, more)))

    def _make_room(self, iterations: NDArray[np.int64], version: int) -> None:
        """Merge buckets in pairs until the existing ones and those of ``iterations`` fit."""
        index = self._index[: len(self)]
        width = self.width
        while True:
            times = width // self.width
            needed = np.union1d(index // times, iterations // width)
            if len(needed) <= self.capacity:
                break
            width *= 2
        if width != self.width:
            self._merge(width // self.width)
            self.width = width
            self._merged = version

    def _merge(self, times: int) -> None:
        used = len(self)
        if not used:
            return
        self._forget_late()
        order = np.argsort(self._index[:used], kind="stable")
        index, starts = np.unique(self._index[order] // times, return_index=True)
        self._first = np.minimum.reduceat(self._first[order], starts)
        self._last = np.maximum.reduceat(self._last[order], starts)
        self._low = np.minimum.reduceat(self._low[order], starts)
        self._high = np.maximum.reduceat(self._high[order], starts)
        self._changed = np.maximum.reduceat(self._changed[order], starts)
        self._total = np.add.reduceat(self._total[:, order], starts, axis=1)
        self._count = np.add.reduceat(self._count[:, order], starts, axis=1)
        self._index = index
        self._slots = {place: slot for slot, place in enumerate(index.tolist())}

    def _note_nonfinite(self, iterations: list[int]) -> None:
        first = min(iterations)
        if self.nonfinite == 0 or first < self.nonfinite_first:
            self.nonfinite_first = first
        self.nonfinite += len(iterations)


def _median(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the median of each column, without ``nan``."""
    ordered = np.sort(means, axis=0)  # puts nan last
    count = np.count_nonzero(~np.isnan(ordered), axis=0)
    columns: Any = np.arange(means.shape[1])
    # Without a finite value, the first of the sorted ones is nan already.
    below = ordered[np.maximum(count - 1, 0) // 2, columns]
    return np.asarray(below / 2 + ordered[count // 2, columns] / 2, np.float64)


@dataclass(frozen=True)
class Trace:
    """A downsampled curve, ready to draw; ``nan`` without a finite value.

    The band from ``low`` to ``high`` contains every value: of all ranks, and of all the iterations
    of a bucket.
    """

    iterations: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def has_band(self) -> bool:
        """Whether some bucket has values that differ."""
        return any(
            high - low > 1e-9 * max(abs(low), abs(high), 1e-300)
            for low, high in zip(self.low, self.high, strict=True)
        )


class Column(Protocol):
    """Numbers: an array of NumPy, or of Python, which is sooner made of a few."""

    def __len__(self) -> int: ...

    def tolist(self) -> list[Any]:
        """Return its numbers."""


@dataclass(frozen=True)
class Buckets:
    """Some buckets of a curve in order of iterations, as columns of equal length.

    Args:
        x: The iteration in the middle of each bucket.
        index: Iteration // ``width``, which identifies a bucket.
        median: Of the ranks' means; ``nan`` if no rank has a finite value.
        marked: The mean of the requested rank; ``nan`` if it has none.
        width: Iterations per bucket.
        fresh: Whether these are all buckets, so that earlier ones must be dropped.
    """

    x: Column
    index: Column
    low: Column
    median: Column
    high: Column
    mean: Column
    marked: Column
    width: int
    fresh: bool

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class Ends:
    """The first and the last finite value of a curve, each with its iteration.

    Args:
        is_finite: Whether the newest bucket has a finite value.
    """

    first: tuple[float, float]
    last: tuple[float, float]
    is_finite: bool


def encode_curves(curves: Mapping[str, Curve]) -> bytes:
    """Return the curves, by name, as bytes.

    The format is NumPy's ``.npz``: ``names`` is JSON, and ``0/low`` is the array ``low`` of the
    first curve, see ``Curve.arrays``.
    """
    arrays = {_NAMES: np.frombuffer(json.dumps([*curves]).encode(), np.uint8)}
    for number, curve in enumerate(curves.values()):
        arrays |= {f"{number}/{name}": array for name, array in curve.arrays().items()}
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def decode_curves(document: bytes, version: int = 0) -> dict[str, Curve]:
    """Return the curves that ``encode_curves`` wrote, by name.

    Args:
        version: Stored with all buckets.

    Raises:
        ValueError: The bytes are damaged, or were written by something else.
    """
    try:
        with np.load(io.BytesIO(document), allow_pickle=False) as file:
            names = json.loads(file[_NAMES].tobytes())
            members = [key.partition("/") for key in file.files]
            return {
                name: Curve.from_arrays(
                    {key: file[f"{number}/{key}"] for at, _, key in members if at == str(number)},
                    version,
                )
                for number, name in enumerate(names)
            }
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, EOFError, OSError) as error:
        raise ValueError("these are no saved curves") from error
