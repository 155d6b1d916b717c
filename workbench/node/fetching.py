"""Fetch objects in parallel parts, check each, and resume after an interruption."""

from __future__ import annotations

import contextlib
import os
import time
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from hashlib import md5
from pathlib import Path

from workbench.core.node.staging import (
    CHUNK_NBYTES,
    StagingEntry,
    check_entries,
    ranges,
    total_nbytes,
)
from workbench.errors import MachineError
from workbench.node.data_cache import DataCache, digest_of
from workbench.node.s3 import AT_ONCE, S3Bucket, S3Checks, Unanswered

PIECE_NBYTES = 16 << 20
REPORT_SECONDS = 1.0
TRIES = 4
FIRST_PAUSE_SECONDS = 0.5

Work = Callable[[], bool | None]
"""Returns whether the object is intact; None if only a piece of it was fetched."""


@dataclass
class FetchedObject:
    """One object that is being fetched.

    Args:
        left: Pieces that are still missing: offset and length.
        tries: How often it arrived damaged.
    """

    key: str
    entry: StagingEntry
    part: Path
    left: list[tuple[int, int]]
    tries: int = 0

    @property
    def is_small(self) -> bool:
        """Whether it is fetched in one piece and then checked."""
        return self.entry.nbytes <= PIECE_NBYTES

    @property
    def journal(self) -> Path:
        """The file with the offsets of the pieces that were fetched."""
        return self.part.with_name(f"{self.part.name}.pieces")


class Fetching:
    """Fetches the objects of a bucket that a cache lacks."""

    def __init__(self, bucket: S3Bucket, cache: DataCache) -> None:
        self._bucket = bucket
        self._cache = cache
        self._fetched = 0
        self._items: deque[FetchedObject] = deque()
        self._work: deque[tuple[FetchedObject, Work]] = deque()

    def turns(self) -> Iterator[tuple[int, int, int]]:
        """Fetch what is missing; yields bytes present, bytes in all and bytes fetched, each second.

        Raises:
            MachineError: An object could not be fetched, or the disk is too small.
        """
        known = self._bucket.entries()
        keys, entries = list(known), list(known.values())
        check_entries(entries)
        needed = self._cache.missing(entries)
        self._items.extend(self._plan_object(keys[n], entries[n]) for n in needed)
        lacking = sum(length for item in self._items for _, length in item.left)
        self._cache.check_room(lacking)
        total = total_nbytes(entries)
        for _ in self._all():
            yield total - lacking + min(self._fetched, lacking), total, self._fetched
        self._cache.finish(entries)
        yield total, total, self._fetched

    def _plan_object(self, key: str, entry: StagingEntry) -> FetchedObject:
        item = FetchedObject(key, entry, Path(self._cache.part(entry)), [(0, entry.nbytes)])
        if not item.is_small:
            done = _offsets(item.journal) if item.part.exists() else set()
            item.left = [
                piece for piece in ranges(entry.nbytes, PIECE_NBYTES) if piece[0] not in done
            ]
        return item

    def _all(self) -> Iterator[None]:
        """Fetch everything, yielding each second; queues only enough to keep the pool busy."""
        reported = time.monotonic()
        with ThreadPoolExecutor(AT_ONCE, "fetch") as pool:
            under_way: dict[Future[bool | None], FetchedObject] = {}
            try:
                while self._items or self._work or under_way:
                    while len(under_way) < 2 * AT_ONCE and (self._work or self._items):
                        if not self._work:
                            self._plan(self._items.popleft())
                        item, work = self._work.popleft()
                        under_way[pool.submit(self._try, work)] = item
                    for future in wait(under_way, REPORT_SECONDS, FIRST_COMPLETED).done:
                        self._note_piece(under_way.pop(future), future.result())
                    if time.monotonic() - reported >= REPORT_SECONDS:
                        reported = time.monotonic()
                        yield
            finally:
                for future in under_way:
                    future.cancel()

    def _plan(self, item: FetchedObject) -> None:
        if item.is_small:
            self._work.append((item, partial(self._fetch_small, item)))
        elif item.left:
            self._work += [(item, partial(self._fetch_piece, item, *piece)) for piece in item.left]
        else:
            self._work.append((item, partial(self._check, item)))

    def _note_piece(self, item: FetchedObject, is_sound: bool | None) -> None:
        if is_sound is None:
            item.left = item.left[1:]
            if not item.left:
                self._work.append((item, partial(self._check, item)))
            return
        item.journal.unlink(missing_ok=True)
        if is_sound:
            self._cache.keep(item.entry, item.part)
            return
        item.part.unlink(missing_ok=True)
        if item.tries + 1 >= TRIES:
            raise MachineError(
                f"{item.key} of {self._bucket.url} arrived damaged {TRIES} times",
                "upload it again.",
            )
        again = self._plan_object(item.key, item.entry)
        again.tries = item.tries + 1
        self._items.append(again)

    # -- on the pool's threads

    def _try(self, work: Work) -> bool | None:
        """Repeat ``work`` with growing pauses while S3 does not answer."""
        for attempt in range(TRIES):
            try:
                return work()
            except Unanswered:
                if attempt + 1 == TRIES:
                    raise
                time.sleep(FIRST_PAUSE_SECONDS * 2**attempt)
        return None

    def _fetch_small(self, item: FetchedObject) -> bool:
        with _open_part(item.part) as handle:
            os.ftruncate(handle, 0)
            checks = self._bucket.read(item.key, item.entry.digest, self._writer(handle, 0))
        return self._is_sound(item, checks)

    def _fetch_piece(self, item: FetchedObject, offset: int, nbytes: int) -> None:
        with _open_part(item.part) as handle:
            take = self._writer(handle, offset)
            self._bucket.read_range(item.key, item.entry.digest, offset, nbytes, take)
        with item.journal.open("a", encoding="ascii") as journal:
            journal.write(f"{offset}\n")

    def _check(self, item: FetchedObject) -> bool:
        return self._is_sound(item, self._bucket.checks(item.key, item.entry.digest))

    def _writer(self, handle: int, offset: int) -> Callable[[bytes], None]:
        def take(data: bytes) -> None:
            nonlocal offset
            self._fetched += len(data)
            while data:
                written = os.pwrite(handle, data, offset)
                offset, data = offset + written, data[written:]

        return take

    def _is_sound(self, item: FetchedObject, checks: S3Checks) -> bool:
        if item.part.stat().st_size != item.entry.nbytes:
            return False
        if checks.sha256:
            return digest_of(item.part) == b64decode(checks.sha256).hex()
        if "-" not in checks.etag:
            return not checks.etag or etag_of(item.part, []) == checks.etag
        # Only S3 knows the sizes of the parts in which it was uploaded.
        sizes = self._bucket.part_sizes(item.key, int(checks.etag.partition("-")[2]))
        return sum(sizes) != item.entry.nbytes or etag_of(item.part, sizes) == checks.etag


def etag_of(path: Path, sizes: Sequence[int]) -> str:
    """Return the ETag that S3 computes for a file.

    Args:
        sizes: The sizes of the parts in which it is uploaded; empty for one upload.
    """
    with path.open("rb") as file:
        if not sizes:
            return _md5(file.read, path.stat().st_size).hex()
        parts = [_md5(file.read, size) for size in sizes]
    return f"{md5(b''.join(parts), usedforsecurity=False).hexdigest()}-{len(parts)}"


def _md5(read: Callable[[int], bytes], nbytes: int) -> bytes:
    found = md5(usedforsecurity=False)
    while nbytes > 0 and (data := read(min(nbytes, 4 * CHUNK_NBYTES))):
        found.update(data)
        nbytes -= len(data)
    return found.digest()


@contextlib.contextmanager
def _open_part(part: Path) -> Iterator[int]:
    handle = os.open(part, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)


def _offsets(journal: Path) -> set[int]:
    with contextlib.suppress(OSError, ValueError):
        return {int(line) for line in journal.read_text(encoding="ascii").splitlines()}
    return set()
