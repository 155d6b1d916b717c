"""Write files below a folder; no name and no symbolic link leads out of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from workbench.core.node.staging import check_path
from workbench.errors import MachineError

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
# The output is usually on the same disk as the store, which needs free space.
SPARE_NBYTES = 64 << 20


class ContainedFolder:
    """A folder for files whose names are not trusted.

    Args:
        top: The folder that the user has chosen; it may be a symbolic link, or lie behind one.
        path: From ``top`` to the folder, with ``/`` between names; all of it is created.
    """

    def __init__(self, top: Path, path: str) -> None:
        self._top = top
        self._path = check_path(path)

    def __repr__(self) -> str:
        return f"<ContainedFolder {self._top / self._path}>"

    def place(self, path: str) -> Path:
        """Return the path of a file, for messages."""
        return self._top / self._path / path

    def begin(self, path: str) -> IO[bytes]:
        """Open a temporary file beside the place of another one.

        Raises:
            InputError: The path leads out of the folder.
            OSError: The file cannot be created, for example because of a link in its path.
        """
        with self._folder_of(path) as (folder, name):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            return open(
                name,
                "wb",
                opener=lambda _, __: os.open(name, FILE | os.O_EXCL, 0o666, dir_fd=folder),
            )

    def put(self, temporary: str, path: str) -> None:
        """Move a complete file to its place in the same folder."""
        with self._folder_of(path) as (folder, name):
            os.replace(temporary.rpartition("/")[2], name, src_dir_fd=folder, dst_dir_fd=folder)

    def remove(self, path: str) -> None:
        """Remove a file if it exists."""
        with contextlib.suppress(OSError), self._folder_of(path) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def write(self, path: str, offset: int, data: bytes) -> None:
        """Write into a file from ``offset`` on; an offset of 0 truncates it."""
        with self._folder_of(path) as (folder, name):
            handle = os.open(name, FILE | (0 if offset else os.O_TRUNC), 0o666, dir_fd=folder)
            with open(handle, "wb") as file:
                file.seek(offset)
                file.write(data)

    def check_room(self) -> None:
        """Check that the disk has some free space.

        Raises:
            MachineError: There is too little.
        """
        with self._folder_of("file") as (folder, _):
            status = os.fstatvfs(folder)
        if status.f_bavail * status.f_frsize < SPARE_NBYTES:
            raise MachineError("its disk is as good as full")

    @contextlib.contextmanager
    def _folder_of(self, path: str) -> Iterator[tuple[int, str]]:
        """Yield the open folder of a file, and the file's name in it; no link is followed."""
        *names, name = f"{self._path}/{check_path(path)}".split("/")
        self._top.mkdir(parents=True, exist_ok=True)
        folder = os.open(self._top, FOLDER & ~os.O_NOFOLLOW)
        try:
            for inside in names:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(inside, dir_fd=folder)
                above, folder = folder, os.open(inside, FOLDER, dir_fd=folder)
                os.close(above)
            yield folder, name
        finally:
            os.close(folder)
