"""The supervisor's side of the call that sends a node's output files: each whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from workbench.core.node.agent_protocol import (
    FileKept,
    Flushed,
    KeyGiven,
    KeyWanted,
    OutputSent,
    Piece,
    Trouble,
    decode_path,
    encode_path,
)
from workbench.core.node.staging import check_path
from workbench.core.quote import one_line, quote_value
from workbench.core.world.remote import Session
from workbench.errors import InputError, MachineError, ProtocolError
from workbench.node.copying import ArrivingFile
from workbench.node.stream import Call

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


# How often the disk's free space is looked at.
LOOK_NBYTES = 1 << 20

PlaceOf = Callable[[str, str], tuple[ContainedFolder, str]]
KeyOf = Callable[[str, str], str]


class OutputFile:
    """One file that a node sends, into the run's folder here.

    Args:
        key: The path in the folder.
    """

    def __init__(self, run: str, path: str, folder: ContainedFolder, key: str) -> None:
        self.run, self.path = run, path
        self.trouble = ""
        self._folder, self._key = folder, key
        self._arrival: ArrivingFile | None = None
        self._looked = 0
        above, slash, name = key.rpartition("/")
        # A name with the file's own name in it could be too long for the folder.
        short = sha256(name.encode(errors="surrogateescape")).hexdigest()[:16]
        self._temporary = f"{above}{slash}.{short}.coming"
        with self._note_errors():
            folder.check_room()
            self._arrival = ArrivingFile(folder.begin(self._temporary), 0, sha256())

    def add(self, piece: Piece) -> None:
        """Write a piece; after the last one the file is in its place, or ``trouble`` says why not.

        Raises:
            ProtocolError: It is not the next one.
        """
        with self._note_errors():
            if self._arrival is not None:
                self._arrival.add(piece.data, piece.offset)
                if self._arrival.nbytes - self._looked >= LOOK_NBYTES:
                    self._looked = self._arrival.nbytes
                    self._folder.check_room()
            if self._arrival is not None and piece.digest:
                arrival, self._arrival = self._arrival, None
                if arrival.close() != piece.digest:
                    self._folder.remove(self._temporary)
                    raise MachineError("it came damaged")
                self._folder.put(self._temporary, self._key)

    def drop(self) -> None:
        """Discard an unfinished file; it will be sent again."""
        if self._arrival is not None:
            with contextlib.suppress(OSError):
                self._arrival.close()
            self._arrival = None
            self._folder.remove(self._temporary)

    @contextlib.contextmanager
    def _note_errors(self) -> Any:
        """Note an error of this machine's disk: the rest of the file is passed over."""
        try:
            yield
        except ProtocolError:
            raise
        except (OSError, InputError, MachineError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            place = self._folder.place(self._key)
            self.trouble = f"{place} could not be written ({reason})"
            self.drop()


class OutputAgent:
    """The output of runs on one node.

    Args:
        place_of: Returns the place here of a run's file; None where files go to a bucket.

    Attributes:
        runs: The runs that it knows, and that have not ended.
        over: Those of them that it knows to be over.
        flushed: The number of the last flush request that it has completed.
        nbytes: Bytes received from it that are not counted yet.
    """

    def __init__(
        self,
        address: str,
        session: Session,
        call: Call,
        destination: str,
        place_of: PlaceOf | None = None,
    ) -> None:
        self.address, self.session, self.destination = address, session, destination
        self.call = call
        self.runs: set[str] = set()
        self.over: set[str] = set()
        self.trouble = ""
        self.flushed = self.asked = self.nbytes = 0
        self._place_of = place_of
        self._file: OutputFile | None = None

    def __repr__(self) -> str:
        return f"<OutputAgent of {self.address or 'this machine'}: {len(self.runs)} runs>"

    @property
    def is_gone(self) -> bool:
        """Return whether it has ended, or its node is unreachable."""
        return self.call.is_over or not self.session.is_open

    def drop(self) -> None:
        """Hear no more of it; an unfinished file is sent again by the next one."""
        if self._file is not None:
            self._file.drop()
        self.call.cancel()

    def hear(self, key_of: KeyOf) -> tuple[bool, list[str]]:
        """Process the agent's messages.

        Returns:
            Whether there were any, and the runs whose output has all been sent.

        Raises:
            MachineError: A message breaks the protocol; its later ones cannot be understood.
        """
        messages = self.call.take()
        ended = []
        for message in messages:
            match message:
                case Piece():
                    self.nbytes += len(message.data)
                    self._take_piece(message)
                case KeyWanted(run, path):
                    key = key_of(self.check_run(run), checked_path(path))
                    self.call.post(KeyGiven(run, path, encode_path(key)))
                case Trouble(why):
                    self.trouble = one_line(why)
                case Flushed(number):
                    self.flushed = min(number, self.asked)
                case OutputSent(run):
                    ended.append(self._end(run))
                case _:
                    raise ProtocolError(f"it sent a {type(message).__name__} among its output")
        return bool(messages), ended

    def check_run(self, run: str) -> str:
        """Return a run that the agent named, if it knows that run.

        Raises:
            ProtocolError: It does not know the run.
        """
        if run not in self.runs:
            raise ProtocolError(f"it named run {quote_value(run)}, which it has nothing of")
        return run

    def _take_piece(self, piece: Piece) -> None:
        if self._place_of is None:
            raise ProtocolError("it sent a file that is to go to the bucket")
        run, path = self.check_run(piece.run), checked_path(piece.path)
        if self._file is None or (self._file.run, self._file.path) != (run, path):
            if self._file is not None:
                self._file.drop()
            self._file = OutputFile(run, path, *self._place_of(run, path))
        self._file.add(piece)
        if piece.digest:
            self.call.post(FileKept(run, piece.path, self._file.trouble))
            self._file = None

    def _end(self, run: str) -> str:
        if run not in self.over:
            raise ProtocolError(f"it ended run {quote_value(run)}, which is not over")
        self.runs.discard(run)
        self.over.discard(run)
        return run


def checked_path(path: bytes) -> str:
    """Return the path of a run's file.

    Raises:
        ProtocolError: It leads out of the run's folder.
    """
    try:
        return check_path(decode_path(path))
    except InputError:
        what = quote_value(path.decode(errors="replace"))
        raise ProtocolError(f"it named {what}, which leads out of a run's folder") from None
