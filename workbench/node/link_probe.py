"""Try and measure the network between nodes: each listens, and some connect to others.

Run as ``python -m workbench.node.link_probe listen``, which prints its port and its host name and
ends with its input. ``… try`` and ``… measure`` read a JSON list of addresses with ports from their
input, and print a JSON object with what was found for each address. What a pair of ranks uses is
one connection, and so does this.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import sys
import threading
import time

TRY_SECONDS = 3.0
# A route of 200 ms is still measured three times; neighbours are measured many times.
PING_SECONDS, LEAST_PINGS = 0.15, 3
# A new connection needs some round trips until it is as fast as its way; the first part of the
# window does not count. Two nodes take less than two seconds in both directions.
LEAST_SECONDS, MOST_SECONDS, ROUND_TRIPS, SETTLES = 0.25, 0.6, 8, 1 / 3
PIECE_NBYTES = 1 << 18
# Bytes that wait for a slow way would come long after the window.
UNSENT_NBYTES = 1 << 17
ECHO, TAKE, GIVE = b"e", b"t", b"g"
RATE = struct.Struct("!d")


def listen() -> None:
    """Serve whatever connects, until standard input closes."""
    server = socket.create_server(("", 0), backlog=64)
    print(server.getsockname()[1], socket.gethostname(), flush=True)
    threading.Thread(target=accept, args=(server,), daemon=True).start()
    sys.stdin.read()


def accept(server: socket.socket) -> None:
    """Serve connections of others, each on a thread."""
    while True:
        connection, _ = server.accept()
        threading.Thread(target=_serve, args=(connection,), daemon=True).start()


def _serve(connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError):
        _prepare(connection)
        wish = connection.recv(1)
        if wish == ECHO:
            while data := connection.recv(1):
                connection.sendall(data)
        elif wish == TAKE:
            (window,) = RATE.unpack(connection.recv(RATE.size, socket.MSG_WAITALL))
            connection.sendall(RATE.pack(_receive(connection, min(window, MOST_SECONDS))))
            while connection.recv(PIECE_NBYTES):
                pass
        elif wish == GIVE:
            _give(connection)


def try_address(address: str, port: int) -> str:
    """Return why there is no connection; empty for success."""
    try:
        socket.create_connection((address, port), TRY_SECONDS).close()
    except OSError as error:
        return error.strerror or f"no answer within {TRY_SECONDS:g} s"
    return ""


def measure(address: str, port: int) -> tuple[float, float, float] | None:
    """Return the link to a node that listens; None if it breaks.

    Returns:
        Seconds one way, half of a round trip; bytes per second to there, and from there.
    """
    try:
        with _connect(address, port, ECHO) as link:
            trip = _ping(link)
        window = min(MOST_SECONDS, max(LEAST_SECONDS, ROUND_TRIPS * trip))
        with _connect(address, port, TAKE + RATE.pack(window)) as link:
            there = _send(link)
        with _connect(address, port, GIVE) as link:
            back = _receive(link, window)
    except (OSError, struct.error):
        return None
    return trip / 2, there, back


def _ping(link: socket.socket) -> float:
    """Return the seconds of the quickest round trip: the others waited for a processor."""
    trips: list[float] = []
    deadline = time.perf_counter() + PING_SECONDS
    while len(trips) < LEAST_PINGS or time.perf_counter() < deadline:
        begun = time.perf_counter()
        link.sendall(ECHO)
        if not link.recv(1):
            raise ConnectionResetError
        trips.append(time.perf_counter() - begun)
    return min(trips)


def _send(link: socket.socket) -> float:
    """Send until the other end has counted enough; return the rate that it says."""
    giving = threading.Thread(target=_give, args=(link,), daemon=True)
    giving.start()
    rate: float = RATE.unpack(link.recv(RATE.size, socket.MSG_WAITALL))[0]
    link.shutdown(socket.SHUT_RDWR)
    giving.join()
    return rate


def _give(link: socket.socket) -> None:
    """Send until the connection is closed."""
    piece = bytes(PIECE_NBYTES)
    with contextlib.suppress(OSError):
        while True:
            link.sendall(piece)


def _receive(link: socket.socket, window: float) -> float:
    """Return the bytes per second that come, from the later part of the window."""
    room = bytearray(PIECE_NBYTES)
    if not link.recv_into(room):
        raise ConnectionResetError
    begun = time.perf_counter()
    settled, nbytes, now = 0.0, 0, begun
    while now < begun + window:
        if not (came := link.recv_into(room)):
            raise ConnectionResetError
        now = time.perf_counter()
        if settled:
            nbytes += came
        elif now >= begun + SETTLES * window:
            settled = now
    return nbytes / (now - settled) if now > settled else 0.0


def _connect(address: str, port: int, wish: bytes) -> socket.socket:
    link = socket.create_connection((address, port), TRY_SECONDS)
    _prepare(link)
    link.sendall(wish)
    return link


def _prepare(link: socket.socket) -> None:
    link.settimeout(TRY_SECONDS)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_NBYTES)
    # What is still on its way when it closes is dropped.
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def main() -> None:
    """Do what the command line says."""
    if sys.argv[1] == "listen":
        return listen()
    work = measure if sys.argv[1] == "measure" else try_address
    print(json.dumps({address: work(address, port) for address, port in json.load(sys.stdin)}))
    return None


if __name__ == "__main__":
    main()
