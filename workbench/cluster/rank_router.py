"""The supervisor's end of the channel to the ranks."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import zmq

from workbench.core.messages import BaseMessage, decode
from workbench.core.run.rank_protocol import (
    LARGEST_MESSAGE,
    Command,
    Delivery,
    Hello,
    decode_message,
    encode,
)
from workbench.errors import ClusterError, ProtocolError

log = logging.getLogger("workbench.supervisor")

BIND_SECONDS = 5.0
GATHERED = 16 * 2**20  # bytes that are read at once
_SENDER = re.compile(rb"([0-9]{1,9})\.([0-9]{1,9})")
_MOST_NAMED = 100  # senders in warnings about invalid messages; a connection may have any name


class RouterAddress(BaseMessage, frozen=True):
    """Where ranks find the router, and how they know it; as it is kept for a successor.

    Args:
        port: 0 for any that is free.
        public: The key that ranks have.
    """

    port: Annotated[int, msgspec.Meta(ge=0, lt=2**16)]
    public: str
    secret: str


class RankRouter:
    """A socket that all ranks connect to, at an address that outlives this process.

    Port and key are in a file that only the owner can read, so that the ranks of a previous
    supervisor find a restarted one.

    Args:
        path: That file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.router_mandatory = True
        self._socket.router_handover = True
        self._socket.rcvhwm = 1_000
        self._socket.maxmsgsize = LARGEST_MESSAGE
        self._ignored: set[bytes] = set()
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self.readable: frozenset[int] = frozenset()
        """Those descriptors of ``wake_by`` that could be read at the last ``receive``."""
        self.endpoint = ""
        self.server_key = ""

    def open(self, seconds: float = BIND_SECONDS) -> None:
        """Bind to the previous supervisor's address if there was one.

        Args:
            seconds: How long a supervisor that was killed a moment ago may still hold the port.

        Raises:
            ClusterError: The port is in use, or the file cannot be written.
        """
        kept = self._read_kept()
        address = kept or _fresh()
        self._socket.curve_server = True
        self._socket.curve_publickey = address.public.encode()
        self._socket.curve_secretkey = address.secret.encode()
        self.server_key = address.public
        self._bind(address.port, seconds)
        endpoint = self._socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\x00")
        self.endpoint = endpoint
        found = msgspec.structs.replace(address, port=int(endpoint.rsplit(":", 1)[1]))
        if found != kept:  # a full disk must not separate a new supervisor from its ranks
            self._keep(found)

    def receive(self, seconds: float) -> list[Delivery]:
        """Return the messages that have come, waiting at most ``seconds`` for the first.

        It waits no longer once a descriptor of ``wake_by`` can be read. Invalid messages, and those
        in the name of another rank, are ignored.
        """
        messages: list[Delivery] = []
        room = GATHERED
        ready = dict(self._poller.poll(int(seconds * 1000)))
        self.readable = frozenset(one for one in ready if isinstance(one, int))
        if self._socket in ready:
            with contextlib.suppress(zmq.Again):
                while room > 0:
                    frames = self._socket.recv_multipart(zmq.DONTWAIT)
                    room -= sum(map(len, frames))
                    try:
                        messages.append(_read(frames))
                    except ProtocolError as error:
                        self._ignore(frames[0], error)
        return messages

    def wake_by(self, descriptor: int) -> None:
        """Let a descriptor that can be read end the wait of ``receive``."""
        self._poller.register(descriptor, zmq.POLLIN)

    def sleep_through(self, descriptor: int) -> None:
        """Have no longer what ``wake_by`` did."""
        self._poller.unregister(descriptor)

    def send(self, generation: int, ranks: Sequence[int], command: Command) -> None:
        """Send ``command`` to ranks; those that are not connected do not get it."""
        line = encode(command)
        for rank in ranks:
            with contextlib.suppress(zmq.ZMQError):
                self._socket.send_multipart([f"{generation}.{rank}".encode(), line], zmq.DONTWAIT)

    def close(self, *, forget: bool = False) -> None:
        """Close the socket; ``forget`` the address when no rank is left to reconnect to it."""
        self._socket.close()
        self._context.term()
        if forget:
            self._path.unlink(missing_ok=True)

    def _ignore(self, sender: bytes, error: ProtocolError) -> None:
        if sender not in self._ignored and len(self._ignored) < _MOST_NAMED:
            self._ignored.add(sender)
            log.warning("ignored a message from %.60r: %s", sender, error)

    def _read_kept(self) -> RouterAddress | None:
        with contextlib.suppress(OSError, ProtocolError):
            return decode(RouterAddress, self._path.read_bytes())
        return None

    def _keep(self, kept: RouterAddress) -> None:
        temporary = self._path.with_suffix(".new")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(kept))
            os.replace(temporary, self._path)
        except OSError as error:
            raise ClusterError(
                f"{self._path} cannot be written ({error.strerror})",
                "free some space, or correct its permissions.",
            ) from error

    def _bind(self, port: int, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                self._socket.bind(f"tcp://127.0.0.1:{port or '*'}")
            except zmq.ZMQError as error:
                if time.monotonic() > deadline:
                    raise ClusterError(
                        f"Port {port} is in use by another program",
                        "`workbench delete` and `workbench up` choose another.",
                    ) from error
                time.sleep(0.1)
            else:
                return


def _read(frames: Sequence[bytes]) -> Delivery:
    """Return a rank's message.

    Raises:
        ProtocolError: It is not a valid message, or not one of the rank that sent it.
    """
    named = _SENDER.fullmatch(frames[0])
    if named is None or len(frames) != 2:
        raise ProtocolError("its sender is no rank")
    generation, rank = map(int, named.groups())
    message = decode_message(frames[1])
    of = message.generation if isinstance(message, Hello) else generation
    if (of, message.rank) != (generation, rank):
        raise ProtocolError(f"it has the id of another rank: {message!r:.80}")
    return Delivery(generation, message)


def _fresh() -> RouterAddress:
    public, secret = zmq.curve_keypair()
    return RouterAddress(0, public.decode(), secret.decode())
