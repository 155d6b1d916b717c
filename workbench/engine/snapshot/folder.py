"""Write, check and remove snapshots in a folder of a node; a snapshot is complete or absent."""

from __future__ import annotations

import contextlib
import errno
import io
import mmap
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, cast

from msgspec.structs import replace

from workbench.core.recovery.snapshots import (
    MANIFEST,
    Age,
    SnapshotFile,
    SnapshotManifest,
    decode_manifest,
    encode_manifest,
    superfluous,
)
from workbench.core.units import size_text
from workbench.engine.compiled_modules import require_current
from workbench.engine.reporting.run_log import make_for_owner, owners_only
from workbench.engine.snapshot.saved_bytes import Bytes, SavedBytes, new_memory

try:
    from workbench.engine.snapshot import checksum

    require_current(checksum)
except ImportError:  # built without a C compiler, or for another processor
    import zlib as checksum  # type: ignore[no-redef]  # slower

SPARE_NBYTES = 64 << 20
"""Free space that a snapshot leaves on its disk."""
_CLAIM = ".claimed-by-attempt-"
_STEP_NBYTES = 1 << 20

_Raw = io.RawIOBase | io.BytesIO
Write = Callable[[IO[bytes]], None]
"""Writes the content of one file."""


class SnapshotFolder:
    """The snapshots of one run on one node.

    Args:
        path: The folder; it need not exist.
        run: The run's id.
    """

    def __init__(self, path: Path, run: str) -> None:
        self.path, self._run = path, run
        self._passed_over: set[str] = set()

    def write(
        self,
        manifest: SnapshotManifest,
        contents: Mapping[str, Write],
        readable: Callable[[SnapshotManifest], None] | None = None,
        complete: Age | None = None,
    ) -> SnapshotManifest:
        """Write a snapshot, and remove those that are no longer needed; return its manifest.

        Another leader may write the same snapshot to the same folder; one of both is kept.

        Args:
            readable: If given, it is called once processes can read the snapshot, and only then is
                the snapshot brought to the disk. One that a power failure damages is passed over,
                as those before it are removed last.
            complete: See ``superfluous``.

        Raises:
            OSError: It cannot be written, has no room, or a later attempt has claimed the folder;
                nothing of it is left.
        """
        make_for_owner(self.path)
        self._check_claim(manifest.attempt)
        self._check_room()
        part = self.path / f".{manifest.name}.{socket.gethostname()}-{os.getpid()}.part"
        shutil.rmtree(part, ignore_errors=True)
        try:
            part.mkdir(mode=0o700)
            files = tuple(_write_file(part / name, write) for name, write in contents.items())
            whole = replace(manifest, files=files)
            _write_file(part / MANIFEST, lambda file: _put(file, encode_manifest(whole).encode()))
            if readable is None:
                _sync_below(part)
            self._check_claim(manifest.attempt)
            self._publish(part, whole)
            if readable is not None:
                readable(whole)
                _sync_below(self.path / whole.name)
            _sync(self.path)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        for old in superfluous(self.manifests(), complete):
            # Without its manifest it is no snapshot any more for a leader that lists them now.
            with contextlib.suppress(OSError):
                (self.path / old.name / MANIFEST).unlink()
            shutil.rmtree(self.path / old.name, ignore_errors=True)
        return whole

    def manifests(self) -> list[SnapshotManifest]:
        """Return the manifests of all snapshots; one that cannot be used is passed over."""
        found = []
        for path in sorted(self.path.glob(f"*/{MANIFEST}")):
            if path.parent.suffix == ".part":
                continue
            try:
                manifest = decode_manifest(path.read_text(encoding="utf-8"))
                if manifest.run != self._run:
                    raise ValueError(f"it is of run {manifest.run!r:.80}")
                found.append(manifest)
            except FileNotFoundError:
                pass  # another leader, on a host that shares the folder, needs it no longer
            except (OSError, ValueError) as error:
                self._pass_over(path.parent.name, error)
        return found

    def find(
        self, manifest: SnapshotManifest, is_wanted: Callable[[str], bool], *, checks: bool = False
    ) -> dict[str, FileReader] | None:
        """Return some files of a snapshot; None, with a message, if it has not them.

        There is no message for one that was removed meanwhile.

        Args:
            checks: Whether to read them, and to compare their checksums.
        """
        with self._passing_over(manifest):
            place = self.path / manifest.name
            found = {
                one.name: FileReader(place / one.name, one)
                for one in manifest.files
                if is_wanted(one.name)
            }
            for one in found.values() if checks else ():
                one.check()
            return found
        return None

    def pour(
        self,
        manifest: SnapshotManifest,
        file: FileReader,
        content: SavedBytes,
        send: Callable[[Bytes], None],
    ) -> bool:
        """Read a file into memory, and send that; return whether it is right, with a message."""
        with self._passing_over(manifest):
            file.pour(content, send)
            return True
        return False

    @contextlib.contextmanager
    def _passing_over(self, manifest: SnapshotManifest) -> Iterator[None]:
        """Say why a snapshot is not used if it cannot be read, unless it was removed meanwhile."""
        try:
            yield
        except (OSError, ValueError) as error:
            if (self.path / manifest.name / MANIFEST).exists():
                self._pass_over(manifest.name, error)

    def claim(self, attempt: int) -> None:
        """Let earlier attempts write nothing more, and remove what they have not finished.

        Raises:
            OSError: The folder cannot be written.
        """
        make_for_owner(self.path)
        with contextlib.suppress(FileExistsError):  # another leader was first
            os.close(os.open(self.path / f"{_CLAIM}{attempt}", os.O_CREAT | os.O_EXCL, 0o600))
        for number in self._claims():
            if number < attempt:
                (self.path / f"{_CLAIM}{number}").unlink(missing_ok=True)
        for path in self.path.glob(".attempt-*.part"):
            word = path.name.split("-")[1]
            if word.isdecimal() and int(word) < attempt:
                shutil.rmtree(path, ignore_errors=True)

    def _claims(self) -> list[int]:
        names = (path.name.removeprefix(_CLAIM) for path in self.path.glob(f"{_CLAIM}*"))
        return [int(name) for name in names if name.isdecimal()]

    def _check_claim(self, attempt: int) -> None:
        newest = max(self._claims(), default=0)
        if newest > attempt:
            what = f"attempt {newest} of the run has taken over from attempt {attempt}"
            raise OSError(errno.EPERM, what, str(self.path))

    def _check_room(self) -> None:
        """Check that there is room for a snapshot of the size of the one before."""
        present = self.manifests()
        newest = max((one.age for one in present), default=None)
        nbytes = sum(file.nbytes for one in present if one.age == newest for file in one.files)
        free = shutil.disk_usage(self.path).free
        if free < nbytes + SPARE_NBYTES:
            needs = size_text(nbytes + SPARE_NBYTES)
            what = f"{needs} are needed on the disk, and {size_text(free)} are free"
            raise OSError(errno.ENOSPC, what, str(self.path))

    def _publish(self, part: Path, manifest: SnapshotManifest) -> None:
        try:
            part.rename(self.path / manifest.name)
        except OSError:
            # A directory with files in it is not replaced: the other leader was first, and may
            # remove it already.
            is_there = (self.path / manifest.name / MANIFEST).exists()
            if not is_there and not any(one.age > manifest.age for one in self.manifests()):
                raise

    def _pass_over(self, name: str, error: Exception) -> None:
        if name not in self._passed_over:
            self._passed_over.add(name)
            print(
                f"workbench: snapshot {name} on {socket.gethostname()} is not used: {error}.",
                file=sys.stderr,
            )


class _Summed(io.BufferedIOBase):
    """Writes a file from its beginning to its end, and sums it up."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.nbytes = self.checksum = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.nbytes

    def write(self, data: Any) -> int:
        self.checksum = checksum.crc32(data, self.checksum)
        nbytes = memoryview(data).nbytes
        self.nbytes += nbytes
        self._file.write(data)
        return nbytes


def _write_file(path: Path, write: Write) -> SnapshotFile:
    with open(path, "wb", opener=owners_only) as file:
        summed = _Summed(file)
        write(cast(IO[bytes], summed))
    return SnapshotFile(path.name, summed.nbytes, summed.checksum)


class FileReader:
    """A file of a snapshot.

    Raises:
        OSError: It cannot be read.
        ValueError: It has another size than its manifest says.
    """

    def __init__(self, path: Path, expected: SnapshotFile) -> None:
        self._path, self._expected, self._checksum = path, expected, 0
        self._is_checked = False
        self.content = memoryview(b"")
        """What it has, which may be damaged; it is mapped, and not yet read."""
        with path.open("rb") as file:
            nbytes = os.fstat(file.fileno()).st_size
            if nbytes != expected.nbytes:
                raise ValueError(f"{expected.name} has {nbytes} of {expected.nbytes} bytes")
            if nbytes:
                self.content = memoryview(mmap.mmap(file.fileno(), nbytes, prot=mmap.PROT_READ))

    def check(self) -> None:
        """Read it, and keep nothing.

        Raises:
            OSError: It cannot be read.
            ValueError: It is damaged.
        """
        step = new_memory(_STEP_NBYTES)
        with self._path.open("rb", buffering=0) as file:
            for start in range(0, len(self.content), _STEP_NBYTES):
                self._read(file, step[: len(self.content) - start])
        self._compare()
        self._is_checked = True

    def pour(self, content: SavedBytes, send: Callable[[Bytes], None]) -> None:
        """Read it into memory, and send all of that, also when it cannot be read.

        What comes next is read while a piece is sent.

        Raises:
            OSError: It cannot be read.
            ValueError: It is damaged.
        """
        reader = ThreadPoolExecutor(1)
        with self._open() as file:
            pieces = [(one, reader.submit(self._read, file, one)) for one in content.messages()]
            try:
                for one, done in pieces:
                    done.exception()
                    send(one)
            finally:
                reader.shutdown(cancel_futures=True)
        for _, done in pieces:
            done.result()
        self._compare()

    def _open(self) -> _Raw:
        try:
            return self._path.open("rb", buffering=0)
        except OSError:
            return io.BytesIO()  # it ends early

    def _read(self, file: _Raw, target: Bytes) -> None:
        """Read as many bytes more as there is memory for, and sum them up."""
        left = memoryview(target)
        while left:
            # So much stays in the cache between the read and the checksum.
            count = file.readinto(left[:_STEP_NBYTES])
            if not count:
                raise ValueError(f"{self._expected.name} ends early")
            if not self._is_checked:
                self._checksum = checksum.crc32(left[:count], self._checksum)
            left = left[count:]

    def _compare(self) -> None:
        found, self._checksum = self._checksum, 0
        if found != self._expected.checksum and not self._is_checked:
            raise ValueError(f"{self._expected.name} is damaged")


def _put(file: IO[bytes], content: Any) -> None:
    file.write(content)


def _sync_below(folder: Path) -> None:
    """Bring the files of a folder to the disk, and the folder; another process may remove them."""
    for path in (*folder.glob("*"), folder):
        with contextlib.suppress(FileNotFoundError):
            _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
