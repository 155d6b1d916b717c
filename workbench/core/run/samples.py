"""The samples of a batch, in columns: there may be thousands a second.

An object for each of them would take most of the time in which a batch is decoded and stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, overload


class Sample(NamedTuple):
    """One value reported by a rank.

    ``time`` is in epoch seconds by the rank's own clock.
    """

    name: str
    iteration: int
    time: float
    value: float


class Samples(Sequence[Sample]):
    """Samples, in order. All columns but ``names`` are of equal length.

    Args:
        names: Their names, each once.
        which: For each sample, the index of its name.
        iterations: Of each sample.
        times: In epoch seconds.
        values: What was reported.
    """

    __slots__ = ("iterations", "names", "times", "values", "which")

    def __init__(
        self,
        names: Sequence[str] = (),
        which: Sequence[int] = (),
        iterations: Sequence[int] = (),
        times: Sequence[float] = (),
        values: Sequence[float] = (),
    ) -> None:
        self.names = names
        self.which = which
        self.iterations = iterations
        self.times = times
        self.values = values

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> Samples:
        """Return samples in columns; those that are in columns already as they are."""
        if isinstance(samples, Samples):
            return samples
        if not (rows := tuple(samples)):
            return cls()
        names, *columns = zip(*rows, strict=True)
        places = {name: place for place, name in enumerate(dict.fromkeys(names))}
        return cls(tuple(places), [places[name] for name in names], *columns)

    def __repr__(self) -> str:
        return f"<Samples: {len(self)} of {', '.join(self.names)}>"

    def __len__(self) -> int:
        return len(self.which)

    @overload
    def __getitem__(self, at: int) -> Sample: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[Sample, ...]: ...

    def __getitem__(self, at: int | slice) -> Sample | tuple[Sample, ...]:
        if isinstance(at, slice):
            return tuple(self)[at]
        name = self.names[self.which[at]]
        return Sample(name, self.iterations[at], self.times[at], self.values[at])

    def __iter__(self) -> Iterator[Sample]:
        names = map(self.names.__getitem__, self.which)
        return map(Sample, names, self.iterations, self.times, self.values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # columns may be lists
