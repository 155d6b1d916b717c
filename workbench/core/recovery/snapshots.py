"""Decide when a training is saved, which snapshots are kept, and which one a run resumes from."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable

import msgspec

from workbench.core.messages import Amount, BaseMessage, Count, convert
from workbench.core.node.staging import check_path
from workbench.errors import WorkbenchError

FORMAT = 1
MANIFEST = "manifest.json"
"""The file that is written last."""

FIRST_ITERATIONS = 5
"""A training's first snapshot is this many iterations after it started or was resumed."""

SHARE_OF_TIME = 0.003
"""Snapshots that are taken at intervals cost at most this share of the time."""

NODE_SECONDS = 24 * 3600.0
"""Assumed mean time until a node is lost."""

REDONE_SECONDS = 10.0
"""More than this is not redone after a loss, if more frequent snapshots are cheap enough."""

KEPT = 2


class SnapshotFile(BaseMessage, frozen=True):
    """One file of a snapshot.

    Args:
        checksum: CRC-32 of its bytes.
    """

    name: str
    nbytes: Count
    checksum: Count


class SnapshotManifest(BaseMessage, frozen=True):
    """What a snapshot is of; written last, so a snapshot without it is not complete.

    Args:
        run: The run's id.
        training: The number of the training within the run, from 1.
        ranks: World size.
        final: Whether the training had ended.
        totals_reached: Whether it ended because all iterations or epochs were done.
        versions: Names and versions of the packages.
        part: The number of the part that it has of a divided state, from 0.
        parts: How many parts there are; those of the same age are a snapshot together.
    """

    run: str
    attempt: Count
    generation: Count
    training: Count
    iteration: Count
    epoch: Amount
    ranks: Count
    final: bool
    totals_reached: bool = False
    versions: tuple[tuple[str, str], ...] = ()
    files: tuple[SnapshotFile, ...] = ()
    part: Count = 0
    parts: Count = 1

    @property
    def age(self) -> tuple[int, int, int, bool]:
        """The order of snapshots; that of the newest is the greatest."""
        return (self.attempt, self.training, self.iteration, self.final)

    @property
    def name(self) -> str:
        """The name of its folder."""
        end = "-final" if self.final else ""
        end += f"-part-{self.part}" if self.parts > 1 else ""
        return f"attempt-{self.attempt}-training-{self.training}-iteration-{self.iteration}{end}"


def encode_manifest(manifest: SnapshotManifest) -> str:
    """Return a manifest as the text of its file."""
    return json.dumps({"format": FORMAT, **msgspec.to_builtins(manifest)}, indent=1)


def decode_manifest(text: str) -> SnapshotManifest:
    """Return the manifest in a file's text.

    Raises:
        ValueError: It is not one, or of a newer format.
    """
    try:
        values = json.loads(text)
        number = values.pop("format")
        if number != FORMAT:
            raise ValueError(f"it has format {number!r:.20}, and this version reads {FORMAT}")
        manifest = convert(SnapshotManifest, values)
        for file in manifest.files:
            check_path(file.name)
            if file.name == MANIFEST:
                raise ValueError(f"its manifest names {file.name!r:.80}")
        return manifest
    except (AttributeError, KeyError, TypeError, RecursionError, WorkbenchError) as error:
        raise ValueError(f"its manifest is damaged ({error!r:.80})") from None


def interval(
    cost: float, step: float, nodes: int, lifetime: float = math.inf, most: float = math.inf
) -> int:
    """Return the iterations until the next snapshot.

    The interval is at most Young's (1974), the square root of twice the cost times the mean time to
    a loss, and at most ``REDONE_SECONDS``. It is longer where snapshots would take too large a
    share of the time, unless the run has been lost so often that Young's is shorter all the same:
    what is done again is then the larger share.

    Args:
        cost: Seconds that a snapshot costs.
        step: Seconds of an iteration.
        lifetime: The mean seconds between the losses that the run has had; infinite for none.
        most: The most seconds until then, whatever that costs.
    """
    assumed = NODE_SECONDS / max(1, nodes)
    seconds = max(min(_young(cost, assumed), REDONE_SECONDS), cost / SHARE_OF_TIME)
    if lifetime < assumed:
        # A snapshot a second is soon enough; a cost that is measured as 0 would be one a step.
        seconds = min(seconds, max(_young(cost, lifetime), 1.0))
    if most < seconds:
        return max(1, math.floor(most / max(step, 1e-6)))
    return max(1, math.ceil(seconds / max(step, 1e-6)))


def _young(cost: float, lifetime: float) -> float:
    return math.sqrt(2 * cost * lifetime)


def estimate_displaced(seconds: float, used: float, cores: int) -> float:
    """Return the part of a writer's processor time for which the training waits.

    A core that is free shares memory, caches and perhaps its threads with those in use. Where
    one of two cores trained, the training waited for all of it.

    Args:
        seconds: Processor time of the writer, which takes one core.
        used: Cores that the ranks of the node keep busy.
        cores: Cores of the node.
    """
    return seconds * min(1.0, (used + 1) / cores)


Age = tuple[int, int, int, bool]


def whole(present: Iterable[SnapshotManifest]) -> list[SnapshotManifest]:
    """Return the snapshots whose parts are all there, in the given order."""
    all_ = [*present]
    parts: dict[Age, set[int]] = {}
    for one in all_:
        parts.setdefault(one.age, set()).add(one.part)
    return [one for one in all_ if len(parts[one.age]) >= one.parts]


def superfluous(
    present: Iterable[SnapshotManifest], complete: Age | None = None
) -> list[SnapshotManifest]:
    """Return the snapshots to remove: not among the newest, and not a training's last final one.

    The newest one that is complete stays too; of parts nothing is removed before one is known.

    Args:
        complete: The age of the newest one whose parts are all known to be on some node; it
            need not be given for those that are whole here.
    """
    ordered = sorted(present, key=lambda one: one.age)
    known = max(
        (*(one.age for one in whole(ordered)), *([complete] if complete else [])), default=None
    )
    if known is None:
        return []
    finals = {one.training: one.age for one in ordered if one.final}
    kept = {known, *finals.values(), *sorted({one.age for one in ordered})[-KEPT:]}
    return [one for one in ordered if one.age not in kept]


def newest_first(present: Iterable[SnapshotManifest]) -> list[SnapshotManifest]:
    """Return each snapshot once, in the order in which a run tries to resume from them.

    Those of the same age stay in the given order: nodes' copies of one iteration differ, and ranks
    that are given the same snapshots have to try them in the same order.
    """
    return sorted(dict.fromkeys(present), key=lambda one: one.age, reverse=True)


def for_training(present: Iterable[SnapshotManifest], training: int) -> list[SnapshotManifest]:
    """Return the snapshots that a training may resume from, the best first.

    A training after the newest snapshot's has none: others come from a start of the run that was
    superseded.
    """
    ordered = newest_first(whole(present))
    if not ordered or training > ordered[0].training:
        return []
    return [one for one in ordered if one.training == training]
