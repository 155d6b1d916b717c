"""Stage a cluster's data on this node, complete and checked; resumes an interrupted transfer.

A node that has the data may give it to the others: it uses a slow line once. A node that takes
sends one line: the token, and which files it needs, from which offsets on. The answer is the bytes
of these files, one after the other. Each is checked where it arrives.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from io import FileIO
from pathlib import Path
from secrets import compare_digest

from workbench.core.node.agent_protocol import (
    NEEDED_AT_ONCE,
    AllSent,
    Damaged,
    FetchData,
    FetchProgress,
    Files,
    GiveData,
    Giving,
    Listed,
    Needed,
    Piece,
    StageData,
    TakeFrom,
    decode_entries,
    decode_path,
    encode_path,
)
from workbench.core.node.staging import CHUNK_NBYTES, StagingEntry, check_entries, check_path
from workbench.errors import InputError, MachineError, ProtocolError
from workbench.node.copying import ArrivingFile
from workbench.node.data_cache import DataCache
from workbench.node.description import own_addresses
from workbench.node.stream import Bell, Call

SILENT_SECONDS = 15.0
CONNECT_SECONDS = 3.0
LINE_NBYTES = 64 << 20
PIECE_NBYTES = 1 << 20
MOST_AT_ONCE = 64

REPORT_SECONDS = 1.0


class StagedData:
    """Receives the files that a cache lacks."""

    def __init__(self, call: Call, cache: DataCache) -> None:
        self._call = call
        self._cache = cache
        self._entries: list[StagingEntry] = []
        self._numbers: dict[str, int] = {}
        self._arrival: tuple[int, ArrivingFile] | None = None
        self._needed: list[tuple[int, int]] = []
        self._damaged: list[int] = []

    def receive(self) -> None:
        """Receive all files."""
        try:
            for message in self._call.messages():
                match message:
                    case Piece():
                        self._take(message)
                    case Files():
                        self._entries += decode_entries(message)
                    case Listed():
                        self._ask()
                    case TakeFrom() if self._take_from(message):
                        return
                    case AllSent() if self._ends():
                        return
        finally:
            if self._arrival is not None:
                self._arrival[1].close()

    def _take_from(self, source: TakeFrom) -> bool:
        """Take the needed files from another node; what does not come counts as damaged."""
        wanted = [
            (self._entries[number].path, offset, self._entries[number].nbytes - offset)
            for number, offset in self._needed
        ]
        total = sum(entry.nbytes for entry in self._entries)
        here = done = total - sum(nbytes for _, _, nbytes in wanted)
        began = reported = time.monotonic()

        def keep(position: int, offset: int, data: bytes) -> None:
            nonlocal done, reported
            number = self._needed[position][0]
            entry = self._entries[number]
            is_last = offset + len(data) == entry.nbytes
            self._take(
                Piece(encode_path(entry.path), data, offset, entry.digest if is_last else "")
            )
            done += len(data)
            if (now := time.monotonic()) - reported >= REPORT_SECONDS:
                reported = now
                self._call.post(FetchProgress(done, total, (done - here) / (now - began)))

        whole = take_files(source, wanted, keep)
        if self._arrival is not None:
            self._arrival[1].close()
            self._arrival = None
        for number, _ in self._needed[whole:]:  # it comes again, from its beginning
            with contextlib.suppress(FileNotFoundError):
                self._close(number, self._entries[number], is_sound=False)
        return self._ends()

    def _ask(self) -> None:
        check_entries(self._entries)
        self._numbers = {entry.path: number for number, entry in enumerate(self._entries)}
        needed, lacking = [], 0
        for number in self._cache.missing(self._entries):
            entry = self._entries[number]
            offset = _arrived_nbytes(entry, self._cache.part(entry))
            needed.append((number, offset))
            lacking += entry.nbytes - offset
        self._needed = needed
        self._cache.check_room(lacking)
        for start in range(0, len(needed), NEEDED_AT_ONCE):
            self._call.post(Needed(tuple(needed[start : start + NEEDED_AT_ONCE])))
        self._call.post(Needed(()))

    def _take(self, piece: Piece) -> None:
        number = self._numbers.get(decode_path(piece.path))
        if number is None:
            raise ProtocolError("it sent a file that is not on the list")
        entry = self._entries[number]
        if self._arrival is None or self._arrival[0] != number:
            if self._arrival is not None:
                self._arrival[1].close()
            self._arrival = number, _open_part(entry, self._cache.part(entry))
        self._arrival[1].add(piece.data, piece.offset)
        if piece.digest:
            is_sound = self._arrival[1].close() == entry.digest
            self._arrival = None
            self._close(number, entry, is_sound=is_sound)

    def _close(self, number: int, entry: StagingEntry, *, is_sound: bool) -> None:
        part = self._cache.part(entry)
        if is_sound:
            self._cache.keep(entry, part)
        else:
            self._damaged.append(number)
            os.unlink(part)

    def _ends(self) -> bool:
        if self._damaged:
            for start in range(0, len(self._damaged), NEEDED_AT_ONCE):
                self._call.post(Damaged(tuple(self._damaged[start : start + NEEDED_AT_ONCE])))
            self._call.post(Damaged(()))
            self._damaged = []
            return False
        self._cache.finish(self._entries)
        return True


def receive_data(call: Call, request: StageData) -> None:
    """Receive the data of a folder; another call for the same one waits for its end."""
    folder = Path(decode_path(request.folder)).expanduser()
    cache = DataCache(folder)
    with _explain_errors(folder), cache.open():
        StagedData(call, cache).receive()


def fetch_data(call: Call, request: FetchData) -> None:
    """Fetch the data of a folder from S3, and report the progress."""
    from workbench.node.fetching import Fetching
    from workbench.node.s3 import S3Bucket  # it takes a second to load, and is rarely needed

    folder = Path(decode_path(request.folder)).expanduser()
    os.environ.update(dict(request.environment))
    cache = DataCache(folder)
    with _explain_errors(folder), cache.open():
        fetching = Fetching(S3Bucket(request.url), cache)
        began = time.monotonic()
        for done, total, fetched in fetching.turns():
            rate = fetched / max(time.monotonic() - began, 0.1)
            call.post(FetchProgress(done, total, rate))
            call.take()  # ends this once it is cancelled


def _arrived_nbytes(entry: StagingEntry, part: str) -> int:
    """Return how much of a file an interrupted transfer left."""
    try:
        return min(os.stat(part).st_size, entry.nbytes)
    except FileNotFoundError:
        return 0


def _open_part(entry: StagingEntry, part: str) -> ArrivingFile:
    """Open a file without a buffer, as pieces are large or whole files, and read what it has."""
    nbytes, digest = _arrived_nbytes(entry, part), sha256()
    fresh = 0 if nbytes else os.O_TRUNC
    file = FileIO(os.open(part, os.O_RDWR | os.O_CREAT | fresh, 0o600), "r+b")
    if nbytes:
        file.truncate(nbytes)
    left = nbytes
    while left:
        data = file.read(min(left, 4 * CHUNK_NBYTES))
        digest.update(data)
        left -= len(data)
    return ArrivingFile(file, nbytes, digest)


@contextlib.contextmanager
def _explain_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = error.filename or folder
        raise MachineError(
            f"{where} cannot be written ({error.strerror})", "free some space there, or correct it."
        ) from error


def give_data(call: Call, request: GiveData) -> None:
    """Give the files of a folder until the call is cancelled."""
    folder = Path(decode_path(request.folder)).expanduser()
    room = threading.BoundedSemaphore(MOST_AT_ONCE)
    with socket.create_server(("", 0), backlog=MOST_AT_ONCE) as server, Bell(call) as bell:
        call.post(Giving(own_addresses(), server.getsockname()[1]))
        while True:
            ready, _, _ = select.select([server.fileno(), bell.descriptor], [], [])
            if bell.descriptor in ready:
                bell.take()  # raises once the call is cancelled
            if server.fileno() in ready:
                taker, _ = server.accept()
                arguments = (taker, folder, request.token, room)
                threading.Thread(target=_give, args=arguments, daemon=True).start()


def _give(taker: socket.socket, folder: Path, token: str, room: threading.Semaphore) -> None:
    """Answer one node; what goes wrong ends the connection, which it notices."""
    with taker, contextlib.suppress(OSError, ValueError, TypeError, InputError):
        if not room.acquire(blocking=False):
            return
        try:
            taker.settimeout(SILENT_SECONDS)
            with taker.makefile("rb") as asked:
                said = asked.readline(len(token) + 1).decode().strip()
                if not compare_digest(said.encode(), token.encode()):
                    return
                wanted = json.loads(asked.readline(LINE_NBYTES))
            for path, offset, nbytes in wanted:
                with open(folder / check_path(str(path)), "rb", buffering=0) as file:
                    if nbytes:
                        taker.sendfile(file, int(offset), int(nbytes))
        finally:
            room.release()


def take_files(
    source: TakeFrom,
    files: Sequence[tuple[str, int, int]],
    keep: Callable[[int, int, bytes], None],
) -> int:
    """Take files from another node; return how many came whole.

    Args:
        files: Path, offset and number of bytes from there on.
        keep: Called with a file's position in ``files``, an offset in it, and its bytes.
    """
    with contextlib.suppress(OSError), _connect(source) as giver:
        giver.sendall(f"{source.token}\n{json.dumps(files)}\n".encode())
        for number, (_, offset, nbytes) in enumerate(files):
            left = nbytes
            while True:
                data = giver.recv(min(left, PIECE_NBYTES)) if left else b""
                if left and not data:
                    return number
                keep(number, offset + nbytes - left, data)
                left -= len(data)
                if not left:
                    break
        return len(files)
    return 0


def _connect(source: TakeFrom) -> socket.socket:
    """Connect to the first of the other node's addresses that answers.

    Raises:
        OSError: None does.
    """
    for address in source.addresses:
        with contextlib.suppress(OSError):
            found = socket.create_connection((address, source.port), CONNECT_SECONDS)
            found.settimeout(SILENT_SECONDS)
            return found
    raise OSError("none of its addresses answers")
