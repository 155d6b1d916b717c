"""Decide which data files a node lacks, where they are stored, and how progress is shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from workbench.core.messages import PATH_NBYTES
from workbench.core.quote import quote_value
from workbench.core.units import duration, size_text
from workbench.errors import InputError

DATA_VARIABLE = "WORKBENCH_DATA"
OUTPUT_VARIABLE = "WORKBENCH_OUTPUT"
DATA_ROOT = "~/workbench-data"
OUTPUT_ROOT = "~/workbench-output"
SNAPSHOT_ROOT = "~/workbench-snapshots"
S3 = "s3://"
CHUNK_NBYTES = 256 << 10
# Bits per second of a line upward, and what takes longer than some seconds.
LINES, LEAST_SAID_NBYTES = (20e6, 100e6), 50_000_000
# In flight to one node: half a second's worth, so that other messages of its session wait less.
AHEAD_SECONDS = 0.5
LEAST_AHEAD_NBYTES = 256 << 10
MOST_AHEAD_NBYTES = 8 << 20
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_FORBIDDEN = re.compile(r"[\"\\*?${}\x00-\x1f]")
_URL = re.compile(r"[A-Za-z0-9+.-]*:/|s3/", re.ASCII)


@dataclass(frozen=True)
class StagingEntry:
    """One file of the data.

    Args:
        path: From the data's folder, with ``/`` between the names.
        digest: Identifies its content: sha256 in hex, or S3's ETag.
    """

    path: str
    nbytes: int
    digest: str


@dataclass(frozen=True)
class StagedFile:
    """A file that a node has recorded as complete.

    Args:
        changed: Its time of change in nanoseconds when it was recorded.
    """

    entry: StagingEntry
    changed: int


def sending_text(nbytes: int) -> str:
    """Return how long data is on its way from this computer, a sentence; empty for little.

    The speed of a line is known only once something is sent, so there are two examples.
    """
    if nbytes < LEAST_SAID_NBYTES:
        return ""
    slow, fast = (duration(8 * nbytes / rate) for rate in LINES)
    return (
        f"The data, {size_text(nbytes)}, goes from this computer to the first node, and from there "
        f"to the others: {slow} at 20 Mbit/s, {fast} at 100 Mbit/s, before the first step. In "
        "s3://…, nodes fetch it themselves."
    )


def is_bucket(place: str) -> bool:
    """Return whether ``place`` is in S3, or is meant to be."""
    return place.startswith("s3:")


def parse_bucket(url: str) -> tuple[str, str]:
    """Return bucket and prefix of ``s3://bucket/prefix``; the prefix without slashes at its ends.

    Raises:
        InputError: It has another form.
    """
    bucket, _, prefix = url.removeprefix(S3).partition("/")
    whole = url.startswith(S3) and _BUCKET.fullmatch(bucket) and not _FORBIDDEN.search(prefix)
    if not whole or ".." in bucket or "//" in prefix:
        raise InputError(f"{url!r} is not a place in S3", "write s3://bucket/prefix.")
    return bucket, prefix.strip("/")


def check_folder_name(place: str) -> str:
    """Return ``place`` if it can be a folder's path.

    Raises:
        InputError: It looks like another kind of place.
    """
    if _URL.match(place) or "\0" in place:
        raise InputError(
            f"{place!r} is neither a folder nor a place in S3",
            "write a path, or s3://bucket/prefix.",
        )
    return place


def check_path(path: str) -> str:
    """Return a path within the data if it is valid.

    Raises:
        InputError: It leads out of the folder, or is not a file name.
    """
    names = path.split("/")
    is_whole = "\0" not in path and _is_short(path)
    if not is_whole or any(name in ("", ".", "..") for name in names):
        what = quote_value(path, PATH_NBYTES)
        raise InputError(f"{what} cannot be a file of the data", "rename it, or leave it out.")
    return path


def _is_short(path: str) -> bool:
    """Return whether a file system can have the name, including undecodable bytes."""
    try:
        return len(path.encode(errors="surrogateescape")) <= PATH_NBYTES
    except UnicodeEncodeError:
        return False


def check_entries(entries: Sequence[StagingEntry]) -> None:
    """Check that a manifest can be a folder.

    Raises:
        InputError: A path is invalid or repeated, or is both a file and a folder.
    """
    paths = {check_path(entry.path) for entry in entries}
    if len(paths) < len(entries):
        raise InputError("The data names a file twice", "leave one of the two out.")
    for path in paths:
        parent = path.rpartition("/")[0]
        while parent:
            if parent in paths:
                raise InputError(
                    f"{parent!r} is a file of the data and a folder too", "rename one of them."
                )
            parent = parent.rpartition("/")[0]


def relative_key(key: str, prefix: str) -> str:
    """Return the path within the data of an S3 key; empty if it is outside of the prefix.

    If an object's key is the prefix itself, it is the data's only file, under its last name.
    """
    if key.endswith("/"):
        return ""  # a folder made by the console
    if not prefix:
        return key
    if key == prefix:
        return key.rpartition("/")[2]
    return key[len(prefix) + 1 :] if key.startswith(f"{prefix}/") else ""


def find_missing(entries: Sequence[StagingEntry], held: Mapping[str, StagedFile]) -> list[int]:
    """Return the indices in ``entries`` of files that are missing or differ."""
    return [
        number
        for number, entry in enumerate(entries)
        if entry.path not in held or held[entry.path].entry != entry
    ]


def find_outdated(entries: Iterable[StagingEntry], held: Mapping[str, StagedFile]) -> list[str]:
    """Return the files that are no longer part of the data."""
    wanted = {entry.path for entry in entries}
    return sorted(path for path in held if path not in wanted)


def total_nbytes(entries: Iterable[StagingEntry]) -> int:
    """Return the total size of the files in bytes."""
    return sum(entry.nbytes for entry in entries)


def ranges(nbytes: int, size: int) -> list[tuple[int, int]]:
    """Return offset and length of each piece of a file."""
    return [(offset, min(size, nbytes - offset)) for offset in range(0, nbytes, size)]


def ahead_nbytes(rate: float) -> int:
    """Return how many bytes may be in flight to a node that reads ``rate`` bytes per second."""
    return int(min(MOST_AHEAD_NBYTES, max(LEAST_AHEAD_NBYTES, rate * AHEAD_SECONDS)))


def data_folder(cluster: str, source: str) -> str:
    """Return the folder of a cluster's data on a node.

    Args:
        source: ``s3://bucket/prefix``, or ``machine:folder``: data from another source, or of
            another user's cluster of the same name, has another folder.
    """
    return f"{DATA_ROOT}/{cluster}-{sha256(source.encode(errors='replace')).hexdigest()[:8]}"


def output_folder(cluster: str, run: str) -> str:
    """Return the folder for a run's output on a node."""
    return f"{OUTPUT_ROOT}/{cluster}/{run}"


def snapshot_folder(cluster: str, run: str) -> str:
    """Return the folder for a run's snapshots on a node."""
    return f"{SNAPSHOT_ROOT}/{cluster}/{run}"


def progress_text(done: int, total: int, rate: float) -> str:
    """Return the progress of the data: ``Data: 1.2 of 3.4 GB, 34 %, 110 MB/s``.

    Args:
        rate: Bytes per second; 0 while unknown.
    """
    shown, whole = size_text(done), size_text(total)
    if shown.split()[1] == whole.split()[1]:
        shown = shown.split()[0]
    percent = 100 * done // total if total else 100
    return f"Data: {shown} of {whole}, {percent} %" + (f", {size_text(rate)}/s" if rate else "")
