"""Decide what a durable place has of a run, who may write there, and which copies are made."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import msgspec

from workbench.core.recovery.snapshots import (
    FORMAT,
    SnapshotManifest,
    decode_manifest,
    superfluous,
    whole,
)

SHORTEST_PAUSE_SECONDS = 30.0
"""Between the beginnings of two copies of a run's snapshots to another machine."""

SHARE_OF_LINK = 0.25
"""A copy takes at most this share of what the connection carries."""

METERED_RATE = 1e9 / 3600
"""Bytes per second that copies take on average where traffic costs money: 1 GB per hour."""

SHARE_OF_DISK = 0.25
"""On a host, the snapshots of a cluster's ended runs take at most this share of the disk."""


@dataclass(frozen=True)
class SnapshotIndex:
    """What a durable place has of a run; it is replaced as a whole, or not at all.

    Args:
        attempt: The attempt that may write there.
        snapshots: The complete snapshots; a folder that is not among them is none.
    """

    run: str
    attempt: int
    snapshots: tuple[SnapshotManifest, ...] = ()


def encode_index(index: SnapshotIndex) -> str:
    """Return an index as the text of its file."""
    manifests = [{"format": FORMAT, **msgspec.to_builtins(one)} for one in index.snapshots]
    row = {"format": FORMAT, "run": index.run, "attempt": index.attempt, "snapshots": manifests}
    return json.dumps(row, indent=1)


def decode_index(text: str, run: str) -> SnapshotIndex:
    """Return the index of a run in a file's text.

    Raises:
        ValueError: It is not one, of a newer format, or of another run.
    """
    try:
        values = json.loads(text)
        if values["format"] != FORMAT:
            number = values["format"]
            raise ValueError(f"it has format {number!r:.20}, and this version reads {FORMAT}")
        attempt = values["attempt"]
        found = tuple(decode_manifest(json.dumps(one)) for one in values["snapshots"])
        if values["run"] != run or any(one.run != run for one in found):
            raise ValueError("it is of another run")
        if type(attempt) is not int:
            raise TypeError(attempt)
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"it is damaged ({error!r:.80})") from None
    return SnapshotIndex(run, attempt, found)


def claim_index(index: SnapshotIndex | None, run: str, attempt: int) -> SnapshotIndex | None:
    """Return the index with which an attempt may write; None if a later one has claimed it.

    From then on all earlier attempts are refused.
    """
    if index is None:
        return SnapshotIndex(run, attempt)
    return None if index.attempt > attempt else replace(index, attempt=attempt)


def extend_index(
    index: SnapshotIndex | None, manifest: SnapshotManifest
) -> tuple[SnapshotIndex, list[SnapshotManifest]] | None:
    """Return the index with a snapshot more, and the snapshots that are no longer needed.

    None if a later attempt than the snapshot's has claimed the place.
    """
    own = claim_index(index, manifest.run, manifest.attempt)
    if own is None:
        return None
    all_ = (*(one for one in own.snapshots if one.name != manifest.name), manifest)
    gone = superfluous(all_)
    return replace(own, snapshots=tuple(one for one in all_ if one not in gone)), gone


@dataclass(frozen=True)
class Transfer:
    """A snapshot that is to be brought to another place.

    Args:
        source: Where it is.
    """

    manifest: SnapshotManifest
    source: str


def find_needed(present: Iterable[SnapshotManifest]) -> list[SnapshotManifest]:
    """Return the snapshots that a run needs to resume, the newest first.

    They are the newest one whose parts are all there, and the last one of each training that
    has ended.
    """
    named = {one.name: one for one in present}.values()
    ordered = sorted(whole(named), key=_age, reverse=True)
    gone = superfluous(ordered)
    return [one for one in ordered if one.age == ordered[0].age or (one.final and one not in gone)]


def to_bring(
    held: Mapping[str, Iterable[SnapshotManifest]],
    targets: Collection[str],
    damaged: Collection[tuple[str, str]] = (),
) -> list[Transfer]:
    """Return what has to be brought to one of the targets before a run resumes there.

    Args:
        held: What each place has, the preferred sources first.
        targets: The places of the ranks: together they have to have all that is needed.
        damaged: Places and names of snapshots that could not be read there.
    """
    usable = {
        place: [one for one in all_ if (place, one.name) not in damaged]
        for place, all_ in held.items()
    }
    there = {one.name for place in targets for one in usable.get(place, ())}
    return [
        Transfer(one, next(place for place, all_ in usable.items() if one in all_))
        for one in find_needed(one for all_ in usable.values() for one in all_)
        if one.name not in there
    ]


class CopiesLeft(Enum):
    """What is left of a run's snapshots once the places of its ranks were searched in vain."""

    NOTHING = "nothing"
    UNKNOWN = "unknown"
    SOME = "some"


def copies_left(
    held: Mapping[str, Collection[SnapshotManifest] | None], damaged: Collection[tuple[str, str]]
) -> CopiesLeft:
    """Return what is left of a run's snapshots.

    Args:
        held: What each place has that may have some, each node of the cluster among them that the
            provider has not taken back; None for one that cannot be reached.
        damaged: As in `to_bring`.
    """
    found = [(place, one) for place, all_ in held.items() for one in all_ or ()]
    if whole(one for place, one in found if (place, one.name) not in damaged):
        return CopiesLeft.SOME
    return CopiesLeft.UNKNOWN if None in held.values() else CopiesLeft.NOTHING


def to_copy(
    held: Iterable[SnapshotManifest], copied: Iterable[SnapshotManifest]
) -> list[SnapshotManifest]:
    """Return the snapshots that a durable place lacks and needs, the newest first."""
    there = {*copied}
    names = {one.name for one in there}
    return [one for one in find_needed({*held, *there}) if one.name not in names]


def pause_after(nbytes: int, seconds: float, *, is_metered: bool) -> float:
    """Return the seconds from the beginning of a copy to that of the next.

    Args:
        nbytes: Size of the copy.
        seconds: How long it took.
        is_metered: Whether the traffic costs money.
    """
    pause = max(SHORTEST_PAUSE_SECONDS, seconds / SHARE_OF_LINK)
    return max(pause, nbytes / METERED_RATE) if is_metered else pause


def beyond_limit(sizes: Mapping[str, int], ended: Sequence[str], limit: int) -> list[str]:
    """Return the ended runs whose snapshots are removed from a host, the oldest first.

    Args:
        sizes: Bytes of each run's snapshots there.
        ended: Runs that have ended, the oldest first.
        limit: Bytes that all may take.
    """
    total, gone = sum(sizes.values()), list[str]()
    for run in ended:
        if total <= limit:
            break
        if run in sizes:
            gone.append(run)
            total -= sizes[run]
    return gone


def _age(manifest: SnapshotManifest) -> tuple[int, int, int, bool]:
    return manifest.age
