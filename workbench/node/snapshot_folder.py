"""Read, receive and remove the snapshots in a run's folder of this node."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import IO

from workbench.core.node.staging import check_path
from workbench.core.recovery.snapshots import (
    MANIFEST,
    SnapshotFile,
    SnapshotManifest,
    decode_manifest,
    encode_manifest,
    superfluous,
)
from workbench.core.units import size_text
from workbench.errors import MachineError
from workbench.node.copying import ArrivingFile, Crc32, crc32_text

CHUNK_NBYTES = 1 << 20
SPARE_NBYTES = 64 << 20
PART = ".part"
_OURS = (".attempt-", ".claimed-by-attempt-")


def manifests(folder: Path, run: str) -> list[SnapshotManifest]:
    """Return the manifests of a run's complete snapshots; others are passed over."""
    found = []
    for path in sorted(folder.glob(f"*/{MANIFEST}")):
        with contextlib.suppress(OSError, ValueError):
            manifest = decode_manifest(path.read_text(encoding="utf-8"))
            if manifest.run == run and manifest.name == path.parent.name:
                found.append(manifest)
    return found


@contextlib.contextmanager
def open_snapshot(
    folder: Path, manifest: SnapshotManifest
) -> Iterator[Sequence[tuple[SnapshotFile, IO[bytes]]]]:
    """Yield the open files of a snapshot: it can be read to its end even if it is removed.

    Raises:
        MachineError: One cannot be opened.
    """
    with contextlib.ExitStack() as stack:
        try:
            files = [
                (one, stack.enter_context((folder / manifest.name / one.name).open("rb")))
                for one in manifest.files
            ]
        except OSError as error:
            raise MachineError(f"{manifest.name} cannot be read ({error.strerror})") from error
        yield files


class ArrivingSnapshot:
    """A snapshot that is being received; complete and checked, or not there at all.

    Args:
        folder: The folder of the run's snapshots; created for its owner alone.
    """

    def __init__(self, folder: Path, manifest: SnapshotManifest) -> None:
        self.manifest = manifest
        self._folder = folder
        self._files = {one.name: one for one in manifest.files}
        mine = f"{os.getpid()}-{threading.get_native_id()}"
        self._part = folder / f".{manifest.name}.arriving-{mine}{PART}"
        self._arrivals: dict[str, ArrivingFile] = {}
        self._digests: dict[str, str] = {}
        for place in (*reversed(folder.parents), folder):
            if not place.exists():
                place.mkdir(mode=0o700)
        needs = sum(one.nbytes for one in manifest.files) + SPARE_NBYTES
        if (free := shutil.disk_usage(folder).free) < needs:
            raise MachineError(
                f"{size_text(needs)} are needed in {folder}, and {size_text(free)} are free"
            )
        shutil.rmtree(self._part, ignore_errors=True)
        self._part.mkdir(mode=0o700)

    def add(self, name: str, data: bytes, offset: int) -> None:
        """Append a piece to a file.

        Raises:
            MachineError: The manifest has no such file, or it would be too long.
        """
        expected = self._files.get(name)
        if expected is None or offset + len(data) > expected.nbytes or name in self._digests:
            raise MachineError(f"{self.manifest.name} has no such part of {name!r:.80}")
        if name not in self._arrivals:
            path = self._part / check_path(name)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            file = FileIO(os.open(path, flags, 0o600), "w")
            self._arrivals[name] = ArrivingFile(file, 0, Crc32())
        self._arrivals[name].add(data, offset)
        if self._arrivals[name].nbytes == expected.nbytes:
            self._digests[name] = self._arrivals.pop(name).close()

    def end(self) -> None:
        """Check the files, write the manifest, and give the folder its name.

        Raises:
            MachineError: A file is damaged, or missing.
        """
        for one in self.manifest.files:
            if not one.nbytes and one.name not in self._digests:
                self.add(one.name, b"", 0)
            if self._digests.get(one.name) != crc32_text(one.checksum):
                raise MachineError(f"{one.name} of {self.manifest.name} came damaged")
        text = encode_manifest(self.manifest)
        with open(os.open(self._part / MANIFEST, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(text)
        for path in (*self._part.rglob("*"), self._part):
            _sync(path)
        place = self._folder / self.manifest.name
        if not (place / MANIFEST).exists():
            shutil.rmtree(place, ignore_errors=True)
            self._part.rename(place)
            _sync(self._folder)
        self.drop()

    def drop(self) -> None:
        """Remove what has come of a snapshot that is not complete."""
        for arrival in self._arrivals.values():
            arrival.close()
        self._arrivals.clear()
        shutil.rmtree(self._part, ignore_errors=True)


def prune(folder: Path, run: str) -> None:
    """Remove the snapshots that are no longer needed."""
    for old in superfluous(manifests(folder, run)):
        _remove(folder / old.name)


def remove_run(folder: Path, run: str) -> None:
    """Remove the snapshots of a run; what else is in the folder stays."""
    for manifest in manifests(folder, run):
        _remove(folder / manifest.name)
    for name in _OURS:
        for path in folder.glob(f"{name}*"):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
        folder.parent.rmdir()  # it was the last run of the cluster


def sizes(root: Path, is_run: Callable[[str], bool]) -> dict[str, int]:
    """Return the bytes of each run's snapshots below a cluster's folder."""
    return {
        path.name: sum(file.nbytes for one in manifests(path, path.name) for file in one.files)
        for path in (sorted(root.iterdir()) if root.is_dir() else ())
        if is_run(path.name)
    }


def _remove(snapshot: Path) -> None:
    """Remove a snapshot, its manifest first: it is no snapshot any more for who lists them now."""
    with contextlib.suppress(OSError):
        (snapshot / MANIFEST).unlink()
    shutil.rmtree(snapshot, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
