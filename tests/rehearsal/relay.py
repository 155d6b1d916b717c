"""Put a home line between this machine and nodes: delay, a limited rate and breaks.

It relays TCP connections in user space, since not every kernel can delay packets. What a real line
does to a single packet it does not show: a connection is accepted at once, and loses nothing.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from asyncio import Queue, StreamReader, StreamWriter

RTT_SECONDS = 0.12
UP_MBITS, DOWN_MBITS = 20.0, 100.0
CHUNK = 16 * 1024  # bytes; connections that share a direction alternate at this size
MOST_CHUNKS = 64  # in flight in a connection: more than the line holds at once
HANDSHAKE = 3  # ways until a server knows of a connection
RESET_AT_ONCE = struct.pack("ii", 1, 0)  # <sys/socket.h>: linger for no time

Flight = Queue[tuple[float, bytes]]


class Line:
    """One direction, which all connections share.

    Args:
        mbits: 10⁶ bits a second.
        delay: Seconds from one end to the other.
    """

    def __init__(self, mbits: float, delay: float) -> None:
        self.delay = delay
        self._rate = mbits * 1e6 / 8
        self._free = 0.0

    async def send(self, size: int) -> float:
        """Wait until so many bytes are on the line; return when they arrive, by the loop's time."""
        now = asyncio.get_running_loop().time()
        self._free = max(now, self._free) + size / self._rate
        sent = self._free
        await asyncio.sleep(sent - now)
        return sent + self.delay


class Relay:
    """Carries connections over one line with two directions; a context, at whose end all close.

    Args:
        rtt: Seconds there and back.
        up: 10⁶ bits a second from this machine to the nodes.
        down: The same from the nodes to this machine.
    """

    def __init__(
        self, rtt: float = RTT_SECONDS, up: float = UP_MBITS, down: float = DOWN_MBITS
    ) -> None:
        self._up, self._down = Line(up, rtt / 2), Line(down, rtt / 2)
        self._joined = asyncio.Event()
        self._joined.set()
        self._servers: list[asyncio.Server] = []
        # The loop itself forgets a task that waits for a stream alone.
        self._carried: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def forward(self, shown: tuple[str, int], real: tuple[str, int]) -> int:
        """Carry what connects to an address and port to another one.

        Returns:
            The port; a free one if that of ``shown`` is 0.
        """
        opening = self._open(shown, real)
        return asyncio.run_coroutine_threadsafe(opening, self._loop).result()

    def part(self) -> None:
        """Let nothing through: no connection is closed, and new ones are silent."""
        self._loop.call_soon_threadsafe(self._joined.clear)

    def rejoin(self, *, elsewhere: bool = False) -> None:
        """End what ``part`` has begun; what was on the line arrives now.

        Args:
            elsewhere: From another network, with another address: the connections that there are
                stay silent forever, and only new ones are carried.
        """
        self._loop.call_soon_threadsafe(self._rejoin, elsewhere)

    def _rejoin(self, elsewhere: bool) -> None:
        if elsewhere:
            self._joined = asyncio.Event()
        self._joined.set()

    async def _open(self, shown: tuple[str, int], real: tuple[str, int]) -> int:
        def accept(reader: StreamReader, writer: StreamWriter) -> None:
            task = self._loop.create_task(self._carry(real, reader, writer))
            self._carried.add(task)
            task.add_done_callback(self._carried.discard)

        server = await asyncio.start_server(accept, *shown)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _carry(
        self, real: tuple[str, int], reader: StreamReader, writer: StreamWriter
    ) -> None:
        """Carry one connection until both ends have closed it."""
        opened, joined = [writer], self._joined
        try:
            await asyncio.sleep(HANDSHAKE * self._up.delay)
            await joined.wait()
            there, back = await asyncio.open_connection(*real)
            opened.append(back)
            async with asyncio.TaskGroup() as group:
                for line, source, target in (
                    (self._up, reader, back),
                    (self._down, there, writer),
                ):
                    flight: Flight = Queue(MOST_CHUNKS)
                    group.create_task(self._take(source, line, flight))
                    group.create_task(self._deliver(flight, target, joined))
        except* ConnectionError:  # refused, or reset: the other end learns of it
            await asyncio.sleep(self._up.delay)
            await joined.wait()
            for one in (one for one in opened if not one.is_closing()):
                one.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_ONCE
                )
                one.transport.abort()
        except* OSError:  # no such node: nothing answers, until the one who asks gives up
            await reader.read()
        finally:
            for one in opened:
                one.close()

    async def _take(self, source: StreamReader, line: Line, flight: Flight) -> None:
        """Put on a line what an end sends; the last is empty."""
        data = b"more"
        while data:
            data = await source.read(CHUNK)
            await flight.put((await line.send(len(data)), data))

    async def _deliver(self, flight: Flight, target: StreamWriter, joined: asyncio.Event) -> None:
        """Give to the other end what has arrived there."""
        while True:
            due, data = await flight.get()
            await asyncio.sleep(due - self._loop.time())
            await joined.wait()
            if not data:
                target.write_eof()
                return
            target.write(data)
            await target.drain()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._carried:
            task.cancel()
        await asyncio.gather(*self._carried, return_exceptions=True)
