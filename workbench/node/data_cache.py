"""The cache of data files on this node: complete, incomplete, and to be deleted."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from hashlib import file_digest, sha256
from pathlib import Path

from workbench.core.node.staging import (
    StagedFile,
    StagingEntry,
    find_missing,
    find_outdated,
)
from workbench.core.units import size_text
from workbench.errors import MachineError

INDEX = "index"
PARTS = "parts"
# Free space that a run needs besides its data.
SPARE_NBYTES = 64 << 20


class DataCache:
    """A folder of data files, with its index in a hidden folder beside it.

    Args:
        folder: Absolute path; created for its owner alone if it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._own = folder.with_name(f".{folder.name}")
        self.parts = self._own / PARTS
        self._index = self._own / INDEX
        self._held: dict[str, StagedFile] = {}
        # Folders that were found or created inside of this one, and checked, since it was opened.
        self._checked: set[str] = set()

    def __repr__(self) -> str:
        return f"<DataCache {self.folder}: {len(self._held)} files>"

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Lock the cache for this process; waits for another process that stages the same data."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.parts.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._own / "lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._held = self._read()
            self._checked.clear()
            with self._index.open("a", encoding="utf-8") as self._journal:
                yield

    def missing(self, entries: Sequence[StagingEntry]) -> list[int]:
        """Return the positions in ``entries`` of the files that are not complete here.

        A file that was changed since, or that is not in the index, is read and compared.
        """
        here = {
            entry.path: held
            for entry in entries
            if (held := self._held.get(entry.path)) is not None and self._is_as_left(held)
        }
        absent = find_missing(entries, here)
        return [number for number in absent if not self._adopt(entries[number])]

    def check_room(self, nbytes: int) -> None:
        """Check that the disk has room for ``nbytes`` more.

        Raises:
            MachineError: The disk has too little free space.
        """
        free = shutil.disk_usage(self.folder).free
        if nbytes + SPARE_NBYTES > free:
            raise MachineError(
                f"{self.folder} needs {size_text(nbytes)} for data, and {size_text(free)} are free",
                "free some space there, or choose nodes with larger disks (on EC2: --disk).",
            )

    def part(self, entry: StagingEntry) -> str:
        """Return the file that collects the parts of a file until it is complete."""
        name = f"{entry.digest} {entry.nbytes} {entry.path}"
        return f"{self.parts}/{sha256(name.encode(errors='surrogateescape')).hexdigest()[:32]}"

    def keep(self, entry: StagingEntry, part: str | Path) -> None:
        """Move a complete and checked file to its place.

        Raises:
            MachineError: A symbolic link leads out of the folder.
        """
        self._prepare_folder(entry.path)
        path = f"{self.folder}/{entry.path}"
        try:
            os.replace(part, path)
        except IsADirectoryError:
            shutil.rmtree(path)
            os.replace(part, path)
        self._note(entry, os.stat(path).st_mtime_ns)

    def finish(self, entries: Sequence[StagingEntry]) -> None:
        """Remove files that are no longer part of the data, and write the index."""
        for path in find_outdated(entries, self._held):
            held = self._held.pop(path)
            if self._is_as_left(held):
                with contextlib.suppress(OSError):
                    self._place(path).unlink()
                self._remove_empty(path)
        temporary = self._index.with_suffix(".new")
        with temporary.open("w", encoding="utf-8") as file:
            file.writelines(_line(held) for held in self._held.values())
        os.replace(temporary, self._index)
        shutil.rmtree(self.parts, ignore_errors=True)

    # -- inside

    def _place(self, path: str) -> Path:
        """Return the path of a file; no link on the way may lead out of the folder."""
        place = self.folder / path
        if not place.parent.resolve().is_relative_to(self.folder.resolve()):
            raise MachineError(
                f"{place.parent} leads out of {self.folder}",
                "remove that link, then restart the node.",
            )
        return place

    def _prepare_folder(self, path: str) -> None:
        """Create the folder of a file; a file where the data has a folder now is removed."""
        parent = path.rpartition("/")[0]
        if parent in self._checked:
            return
        place = self._place(path)
        self._clear_way(path)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._checked.add(parent)

    def _clear_way(self, path: str) -> None:
        for parent in list(Path(path).parents)[:-1]:
            place = self.folder / parent
            if place.is_file():
                place.unlink()
                self._held.pop(str(parent), None)

    def _is_as_left(self, held: StagedFile) -> bool:
        try:
            status = os.lstat(self.folder / held.entry.path)
        except OSError:
            return False
        return (status.st_size, status.st_mtime_ns) == (held.entry.nbytes, held.changed)

    def _adopt(self, entry: StagingEntry) -> bool:
        """Return whether an unlisted file is complete; only a sha256 can show that."""
        try:
            status = os.lstat(f"{self.folder}/{entry.path}")
        except OSError:
            return False
        if len(entry.digest) != 64 or not stat.S_ISREG(status.st_mode):
            return False
        if status.st_size != entry.nbytes or digest_of(self.folder / entry.path) != entry.digest:
            return False
        self._note(entry, status.st_mtime_ns)
        return True

    def _note(self, entry: StagingEntry, changed: int) -> None:
        self._held[entry.path] = held = StagedFile(entry, changed)
        self._journal.write(_line(held))

    def _read(self) -> dict[str, StagedFile]:
        held = {}
        with contextlib.suppress(OSError), self._index.open(encoding="utf-8") as lines:
            for line in lines:
                with contextlib.suppress(
                    TypeError, ValueError
                ):  # the node died while this line was written
                    path, nbytes, digest, changed = json.loads(line)
                    held[path] = StagedFile(StagingEntry(path, nbytes, digest), changed)
        return held

    def _remove_empty(self, path: str) -> None:
        for parent in Path(path).parents:
            if parent == Path():
                break
            with contextlib.suppress(OSError):
                (self.folder / parent).rmdir()


def digest_of(path: Path) -> str:
    """Return a file's sha256, in hex."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _line(held: StagedFile) -> str:
    entry = held.entry
    return json.dumps([entry.path, entry.nbytes, entry.digest, held.changed]) + "\n"
