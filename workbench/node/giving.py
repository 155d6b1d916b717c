"""Give the data of this node to other nodes, and take it from one: it uses a slow line once.

A node that takes sends one line: the token, and which files it needs, from which offsets on. The
answer is the bytes of these files, one after the other. Each is checked where it arrives.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from secrets import compare_digest

from workbench.core.node.agent_protocol import GiveData, Giving, TakeFrom, decode_path
from workbench.core.node.staging import check_path
from workbench.errors import InputError
from workbench.node.description import own_addresses
from workbench.node.stream import Bell, Call

SILENT_SECONDS = 15.0
CONNECT_SECONDS = 3.0
LINE_NBYTES = 64 << 20
PIECE_NBYTES = 1 << 20
MOST_AT_ONCE = 64


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
