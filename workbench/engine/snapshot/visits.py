"""Count how often each example of an epoch was visited, over all ranks and attempts of a run.

The counts are saved with the training. So a step that is done again, because its model was lost,
counts once, as it does for the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

from workbench.core.run.rank_protocol import MOST_TIMES, ExamplesVisited

if TYPE_CHECKING:
    from workbench.engine.snapshot.entries import LoopData
    from workbench.engine.snapshot.peers import Peers

MOST_EXAMPLES = 20_000_000
"""An epoch of more is not counted: a byte for each is summed over the ranks at its end."""
_MOST_WAITING = 1_000
_MOST_BYTE = 255


class Visits:
    """The visits of the present epoch, by this rank and those that it continues."""

    def __init__(self) -> None:
        self._epoch = -1
        self._examples = 0  # of the epoch; a sampler may leave out some between them
        self._counts: Any = None  # an array of bytes; None while no epoch is counted whole
        self._waiting: list[Any] = []

    def __repr__(self) -> str:
        return f"<Visits of epoch {self._epoch}>"

    def note(self, data: LoopData) -> bool:
        """Count the batch that was given last; return whether it ends an epoch that is known.

        It is called on all ranks, before the batch counts as trained on.
        """
        if data.epochs_before != self._epoch:
            self._begin(data)
        if self._counts is None:
            return False
        given = data.given()
        if given is None:
            self._counts = None
            return False
        self._waiting.append(given)
        if len(self._waiting) > _MOST_WAITING:
            self._count()
        return data.ends_epoch

    def _begin(self, data: LoopData) -> None:
        self._epoch, self._waiting = data.epochs_before, []
        # An epoch that began uncounted, as by a library's own checkpoint, is not known whole.
        is_known = data.epoch == self._epoch and 0 < data.examples <= MOST_EXAMPLES
        self._examples = data.examples
        self._counts = numpy.zeros(data.examples, numpy.uint8) if is_known else None

    def _count(self) -> None:
        if self._counts is not None and self._waiting:
            given = numpy.concatenate(self._waiting).astype(numpy.intp)
            self._grow(int(given.max(initial=-1)) + 1)
            if self._counts is not None:
                numpy.add.at(self._counts, given, 1)
        self._waiting = []

    def _grow(self, size: int) -> None:
        """Have counts for so many examples of the data."""
        self._counts = None if size > MOST_EXAMPLES else _pad(self._counts, size)

    def end(self, peers: Peers, iteration: int, training: int) -> ExamplesVisited | None:
        """Return how often each example was visited in the epoch that has ended; collective.

        Args:
            training: Its number within the run.

        Returns:
            None where a rank does not know.
        """
        self._count()
        said = peers.gather((self._examples, -1 if self._counts is None else len(self._counts)))
        if min(size for _, size in said) < 0 or len({examples for examples, _ in said}) > 1:
            return None
        self._grow(max(size for _, size in said))
        total = add_counts(peers, self._counts)
        times, left_out = count_times(total), len(total) - self._examples
        times -= Counter({0: left_out})  # by a sampler, which is no miss
        is_other = total != find_usual(times)
        others = numpy.flatnonzero(is_other & (total > 0) if left_out else is_other)
        return build_report(iteration, self._epoch, times, training, others)

    def own(self) -> Any:
        """Return what a snapshot has of this rank."""
        self._count()
        if self._counts is None:
            return {"epoch": self._epoch}
        return {"epoch": self._epoch, "of": self._examples, **pack_counts(self._counts)}

    def restore(self, owns: Sequence[Any], rank: int) -> None:
        """Continue from what a snapshot has of each rank; rank 0 continues all of them."""
        self._epoch, self._counts, self._waiting = -1, None, []
        if all(one and "examples" in one for one in owns):
            most = max(one["examples"] for one in owns)
            every = [_pad(unpack_counts(one), most) for one in owns]
            self._epoch, self._examples = owns[0]["epoch"], owns[0].get("of", most)
            self._counts = add_arrays(every) if rank == 0 else every[0] * 0


def add_counts(peers: Peers, counts: Any) -> Any:
    """Return the sum over ranks of their counts, as bytes if these hold it; collective."""
    most = sum(peers.gather(int(counts.max(initial=0))))
    return peers.sum(counts.astype(numpy.uint8 if most <= _MOST_BYTE else numpy.uint32))


def add_arrays(every: Sequence[Any]) -> Any:
    """Return the sum of the counts of several ranks."""
    return sum(every[1:], every[0].astype(numpy.uint32))


def _pad(counts: Any, size: int) -> Any:
    return numpy.pad(counts, (0, max(0, size - len(counts))))


def count_times(counts: Any) -> Counter[int]:
    """Return how many examples were visited how often."""
    found = numpy.unique(counts, return_counts=True)
    return Counter({int(one): int(many) for one, many in zip(*found, strict=True)})


def find_usual(times: Counter[int]) -> int:
    """Return how often most examples were visited."""
    return max(sorted(times), key=lambda many: times[many])


def build_report(
    iteration: int,
    epoch: int,
    times: Counter[int],
    training: int,
    others: Any = (),
    *,
    apart: bool = False,
) -> ExamplesVisited:
    """Return what is reported of an epoch; see ``ExamplesVisited``."""
    return ExamplesVisited(
        iteration,
        epoch,
        (*sorted(times.items())[:MOST_TIMES],),
        (*map(int, others[:MOST_TIMES]),),
        training=training,
        apart=apart,
    )


def pack_counts(counts: Any) -> dict[str, Any]:
    """Return an array of bytes, in bits if it has no greater number."""
    is_small = int(counts.max(initial=0)) <= 1
    kept = {"bits": numpy.packbits(counts)} if is_small else {"counts": +counts}
    return {"examples": len(counts), **kept}


def unpack_counts(packed: Any) -> Any:
    """Return what was packed."""
    if "counts" in packed:
        return packed["counts"]
    return numpy.unpackbits(packed["bits"], count=packed["examples"])
