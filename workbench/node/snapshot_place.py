"""Keep the snapshots of runs in a durable place: a folder on a shared disk, or S3.

A small file, the index, names the complete snapshots of a run and the attempt that may write. It is
replaced only if it has not changed since it was read. So an attempt that was replaced can write
files, but never an index that names them, and every reader finds whole snapshots.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, BinaryIO, Protocol, cast

from workbench.core.node.staging import is_bucket
from workbench.core.recovery.snapshot_copies import (
    SnapshotIndex,
    claim_index,
    decode_index,
    encode_index,
    extend_index,
    find_needed,
)
from workbench.core.recovery.snapshots import MANIFEST, SnapshotManifest, encode_manifest
from workbench.errors import MachineError
from workbench.node.snapshot_folder import CHUNK_NBYTES, ArrivingSnapshot, manifests, open_snapshot

INDEX = "index.json"
TRIES = 20
# An index that was replaced is kept a while: another process may be reading it.
_KEPT_STATES = 3


class FencedOut(MachineError):
    """A later attempt of the run writes there; an earlier one may not."""


class SnapshotStorage(Protocol):
    """Files below a durable place; paths have ``/`` between their names."""

    def index(self, run: str) -> tuple[str, str] | None:
        """Return the text of a run's index, and a mark of this state of it; None for none."""
        ...

    def replace_index(self, run: str, text: str, mark: str) -> bool:
        """Replace a run's index; return false, and change nothing, if it is not as marked.

        Args:
            mark: Empty if there was none.
        """
        ...

    def write(self, path: str, file: BinaryIO) -> None:
        """Write a file."""
        ...

    def read(self, path: str, take: Callable[[bytes], None]) -> bool:
        """Read a file, piece by piece; return false if there is none."""
        ...

    def remove(self, path: str) -> None:
        """Remove a folder, if it exists."""
        ...


class FolderStorage:
    """A folder, usually on a shared disk.

    Each state of an index is a file of its own with the next number. It appears by a hard link,
    which fails if another process was first, on NFS too.

    Args:
        folder: An absolute path; created for its owner alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __repr__(self) -> str:
        return f"<FolderStorage {self._folder}>"

    def index(self, run: str) -> tuple[str, str] | None:
        """Return the text of a run's newest index, and its number."""
        while numbers := self._numbers(run):
            with contextlib.suppress(FileNotFoundError):  # it was replaced meanwhile
                path = self._index_path(run, numbers[-1])
                return path.read_text(encoding="utf-8"), str(numbers[-1])
        return None

    def replace_index(self, run: str, text: str, mark: str) -> bool:
        """Write the next index, unless there is one."""
        number = int(mark or 0) + 1
        if mark and self._numbers(run)[-1:] != [int(mark)]:
            return False
        path = self._index_path(run, number)
        self._make(path.parent)
        temporary = path.with_name(f".{INDEX}.{os.uname().nodename}-{os.getpid()}")
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        with _private(temporary) as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        for old in self._numbers(run)[:-_KEPT_STATES]:
            self._index_path(run, old).unlink(missing_ok=True)
        return True

    def write(self, path: str, file: BinaryIO) -> None:
        """Write a file."""
        place = self._folder / path
        self._make(place.parent)
        with contextlib.suppress(FileNotFoundError):
            place.unlink()
        with _private(place) as target:
            shutil.copyfileobj(file, target, CHUNK_NBYTES)
            target.flush()
            os.fsync(target.fileno())

    def read(self, path: str, take: Callable[[bytes], None]) -> bool:
        """Read a file, piece by piece."""
        with contextlib.suppress(FileNotFoundError), (self._folder / path).open("rb") as file:
            while data := file.read(CHUNK_NBYTES):
                take(data)
            return True
        return False

    def remove(self, path: str) -> None:
        """Remove a folder, and those above it that are empty then."""
        place = self._folder / path
        if not place.is_symlink():
            shutil.rmtree(place, ignore_errors=True)
        with contextlib.suppress(OSError):
            place.parent.rmdir()

    def _numbers(self, run: str) -> list[int]:
        names = (
            path.name.split(".")[-1] for path in self._index_path(run, 0).parent.glob("index*")
        )
        return sorted(int(name) for name in names if name.isdecimal())

    def _index_path(self, run: str, number: int) -> Path:
        return self._folder / _root(run) / f"{INDEX}.{number}"

    def _make(self, folder: Path) -> None:
        for place in (*reversed(folder.parents), folder):
            if not place.exists():
                with contextlib.suppress(FileExistsError):
                    place.mkdir(mode=0o700)


class BucketStorage:
    """A prefix of a bucket; its indexes are replaced by S3's conditional writes."""

    def __init__(self, url: str) -> None:
        from workbench.node.s3 import S3Bucket  # it takes a second to load

        self._bucket = S3Bucket(url)

    def __repr__(self) -> str:
        return f"<BucketStorage {self._bucket.url}>"

    def index(self, run: str) -> tuple[str, str] | None:
        """Return the text of a run's index, and its ETag."""
        found = self._bucket.read_small(f"{_root(run)}/{INDEX}")
        return None if found is None else (found[0].decode(errors="replace"), found[1])

    def replace_index(self, run: str, text: str, mark: str) -> bool:
        """Replace the index if its ETag is ``mark``."""
        return self._bucket.replace(f"{_root(run)}/{INDEX}", text.encode(), mark)

    def write(self, path: str, file: BinaryIO) -> None:
        """Upload a file."""
        self._bucket.write(path, file)

    def read(self, path: str, take: Callable[[bytes], None]) -> bool:
        """Read an object, piece by piece."""
        return self._bucket.read_file(path, take)

    def remove(self, path: str) -> None:
        """Delete the objects of a folder."""
        self._bucket.remove(f"{path}/")


class SnapshotPlace:
    """The snapshots of runs in a durable place."""

    def __init__(self, storage: SnapshotStorage) -> None:
        self._storage = storage

    def __repr__(self) -> str:
        return f"<SnapshotPlace in {self._storage!r}>"

    def index(self, run: str) -> SnapshotIndex | None:
        """Return what there is of a run.

        Raises:
            MachineError: The index is damaged, foreign, or of a newer version.
        """
        found = self._storage.index(run)
        return None if found is None else self._decode(found[0], run)

    def claim(self, run: str, attempt: int) -> SnapshotIndex:
        """Let an attempt write, and no earlier one; return what there is.

        Raises:
            FencedOut: A later attempt has claimed the place.
        """

        def change(index: SnapshotIndex | None) -> SnapshotIndex:
            new = claim_index(index, run, attempt)
            if new is None:
                raise _build_fenced(attempt)
            return new

        return self._change_index(run, change)

    def store(self, folder: Path, manifest: SnapshotManifest) -> None:
        """Store a snapshot of a node, and remove those that are no longer needed.

        Raises:
            FencedOut: A later attempt has claimed the place; nothing is stored.
            MachineError: The snapshot is damaged, or the place cannot be written.
        """
        gone: list[SnapshotManifest] = []

        def change(index: SnapshotIndex | None) -> SnapshotIndex:
            found = extend_index(index, manifest)
            if found is None:
                raise _build_fenced(manifest.attempt)
            gone[:] = found[1]
            return found[0]

        root = f"{_root(manifest.run)}/{manifest.name}"
        with _explain_errors(self._storage):
            change(self.index(manifest.run))  # before anything is sent
            with open_snapshot(folder, manifest) as files:
                for one, file in files:
                    self._storage.write(f"{root}/{one.name}", cast(BinaryIO, file))
            text = encode_manifest(manifest).encode()
            self._storage.write(f"{root}/{MANIFEST}", io.BytesIO(text))
            try:
                self._change_index(manifest.run, change)
            except FencedOut:
                self._storage.remove(root)
                raise
            for old in gone:
                # Without the right to delete, it only takes room: no index names it.
                with contextlib.suppress(MachineError):
                    self._storage.remove(f"{_root(manifest.run)}/{old.name}")

    def fetch(self, run: str, folder: Path) -> list[str]:
        """Bring what a run needs to a node; return the names of the snapshots.

        A damaged snapshot is passed over with a line, and the one before it is taken.
        """
        index = self.index(run)
        left, fetched = [*(index.snapshots if index else ())], list[str]()
        here = {one.name for one in manifests(folder, run)}
        while lacking := [one for one in find_needed(left) if one.name not in here]:
            manifest = lacking[0]
            try:
                self._fetch(folder, manifest)
            except MachineError as error:
                print(f"workbench: snapshot {manifest.name}: {error}.", file=sys.stderr)
                left.remove(manifest)
            else:
                here.add(manifest.name)
                fetched.append(manifest.name)
        return fetched

    def remove(self, run: str) -> None:
        """Remove all snapshots of a run, if they are ours."""
        if self.index(run) is not None:
            self._storage.remove(_root(run))

    def _fetch(self, folder: Path, manifest: SnapshotManifest) -> None:
        arrival = ArrivingSnapshot(folder, manifest)
        root = f"{_root(manifest.run)}/{manifest.name}"
        try:
            with _explain_errors(self._storage):
                for one in manifest.files:
                    come = 0

                    def take(data: bytes, name: str = one.name) -> None:
                        nonlocal come
                        arrival.add(name, data, come)
                        come += len(data)

                    if not self._storage.read(f"{root}/{one.name}", take):
                        raise MachineError(f"{one.name} is missing in {self._storage!r}")
                arrival.end()
        finally:
            arrival.drop()

    def _change_index(
        self, run: str, change: Callable[[SnapshotIndex | None], SnapshotIndex]
    ) -> SnapshotIndex:
        """Replace a run's index by what ``change`` makes of it, however many others write it."""
        with _explain_errors(self._storage):
            for _ in range(TRIES):
                found = self._storage.index(run)
                old = None if found is None else self._decode(found[0], run)
                new = change(old)
                mark = "" if found is None else found[1]
                if new == old or self._storage.replace_index(run, encode_index(new), mark):
                    return new
        raise MachineError(f"The index of run {run} in {self._storage!r} changes all the time")

    def _decode(self, text: str, run: str) -> SnapshotIndex:
        try:
            return decode_index(text, run)
        except ValueError as error:
            raise MachineError(
                f"The index of run {run} in {self._storage!r} is not used: {error}",
                "remove it, or name another place.",
            ) from error


def place_of(url: str) -> SnapshotPlace:
    """Return the durable place at a folder or ``s3://bucket/prefix``."""
    return SnapshotPlace(BucketStorage(url) if is_bucket(url) else FolderStorage(Path(url)))


def _root(run: str) -> str:
    return f"{run}/snapshots"


def _build_fenced(attempt: int) -> FencedOut:
    return FencedOut(f"A later attempt of the run writes there, so attempt {attempt} may not")


@contextlib.contextmanager
def _explain_errors(storage: SnapshotStorage) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise MachineError(
            f"{error.filename or storage!r} cannot be used ({error.strerror})",
            "make room, or correct its permissions.",
        ) from error


def _private(path: Path) -> IO[bytes]:
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
