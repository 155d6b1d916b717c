"""Write, check and remove snapshots in a folder of a node; a snapshot is complete or absent."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from workbench.core.run.snapshots import (
    SnapshotFile,
    SnapshotManifest,
    decode_manifest,
    encode_manifest,
    superfluous,
)
from workbench.engine.run_log import make_for_owner, owners_only

MANIFEST = "manifest.json"
_CHUNK = 1 << 20

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

    def write(self, manifest: SnapshotManifest, contents: Mapping[str, Write]) -> SnapshotManifest:
        """Write a snapshot, and remove those that are no longer needed; return its manifest.

        Another leader may write the same snapshot to the same folder; one of both is kept.

        Raises:
            OSError: It cannot be written; nothing of it is left.
        """
        make_for_owner(self.path)
        part = self.path / f".{manifest.name}.{socket.gethostname()}-{os.getpid()}.part"
        shutil.rmtree(part, ignore_errors=True)
        try:
            part.mkdir(mode=0o700)
            files = tuple(_written(part / name, write) for name, write in contents.items())
            whole = replace(manifest, files=files)
            _written(part / MANIFEST, lambda file: _put(file, encode_manifest(whole).encode()))
            _sync(part)
            self._publish(part, whole)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        for old in superfluous(self.manifests()):
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
            except (OSError, ValueError) as error:
                self._pass_over(path.parent.name, error)
        return found

    def read(self, manifest: SnapshotManifest) -> dict[str, bytearray] | None:
        """Return the content of a snapshot's files; None, with a message, if it is damaged."""
        try:
            return {
                one.name: _read(self.path / manifest.name / one.name, one) for one in manifest.files
            }
        except (OSError, ValueError) as error:
            self._pass_over(manifest.name, error)
            return None

    def remove_parts(self, attempt: int) -> None:
        """Remove what earlier attempts have begun to write and not finished."""
        for path in self.path.glob(".attempt-*.part"):
            number = path.name.split("-")[1]
            if number.isdecimal() and int(number) < attempt:
                shutil.rmtree(path, ignore_errors=True)

    def _publish(self, part: Path, manifest: SnapshotManifest) -> None:
        try:
            part.rename(self.path / manifest.name)
        except OSError:
            # A directory with files in it is not replaced: the other leader was first.
            if not (self.path / manifest.name / MANIFEST).exists():
                raise
        _sync(self.path)

    def _pass_over(self, name: str, error: Exception) -> None:
        if name not in self._passed_over:
            self._passed_over.add(name)
            print(
                f"workbench: snapshot {name} on {socket.gethostname()} is not used: {error}.",
                file=sys.stderr,
            )


def _written(path: Path, write: Write) -> SnapshotFile:
    with open(path, "wb", opener=owners_only) as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    checksum = nbytes = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            checksum, nbytes = zlib.crc32(chunk, checksum), nbytes + len(chunk)
    return SnapshotFile(path.name, nbytes, checksum)


def _read(path: Path, expected: SnapshotFile) -> bytearray:
    content = bytearray(path.read_bytes())
    if len(content) != expected.nbytes:
        raise ValueError(f"{path.name} has {len(content)} of {expected.nbytes} bytes")
    if zlib.crc32(content) != expected.checksum:
        raise ValueError(f"{path.name} is damaged")
    return content


def _put(file: IO[bytes], content: Any) -> None:
    file.write(content)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
