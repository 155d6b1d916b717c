"""The supervisor's end of the channel to the ranks."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

import zmq

from workbench.core.report import Command, Message, decode, encode
from workbench.errors import ClusterError

BIND_SECONDS = 5.0


class Mailbox:
    """A socket that all ranks connect to, at an address that outlives this process.

    Port and key are kept in a file that only the owner can read, so that a supervisor that is
    started again is found by the ranks of its predecessor.

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
        self._socket.rcvhwm = 100_000
        self.endpoint = ""
        self.server_key = ""

    def open(self) -> None:
        """Bind, where the predecessor did if there was one.

        Raises:
            ClusterError: The port is taken by something else.
        """
        kept = self._kept()
        public, secret = kept["public"], kept["secret"]
        self._socket.curve_server = True
        self._socket.curve_publickey = public.encode()
        self._socket.curve_secretkey = secret.encode()
        self.server_key = public
        self._bind(int(kept["port"]))
        endpoint = self._socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\x00")
        self.endpoint = endpoint
        self._keep({"port": endpoint.rsplit(":", 1)[1], "public": public, "secret": secret})

    def receive(self, seconds: float) -> list[Message]:
        """Return all messages that have come, waiting at most ``seconds`` for the first."""
        messages: list[Message] = []
        if self._socket.poll(int(seconds * 1000)):
            with contextlib.suppress(zmq.Again):
                while True:
                    frames = self._socket.recv_multipart(zmq.DONTWAIT)
                    with contextlib.suppress(ValueError):
                        _, line = frames
                        messages.append(decode(line))  # type: ignore[arg-type]  # ranks send messages
        return messages

    def send(self, generation: int, ranks: Sequence[int], command: Command) -> None:
        """Send ``command`` to ranks; one that is not connected gets nothing."""
        line = encode(command)
        for rank in ranks:
            with contextlib.suppress(zmq.ZMQError):
                self._socket.send_multipart([f"{generation}.{rank}".encode(), line], zmq.DONTWAIT)

    def close(self, *, forget: bool = False) -> None:
        """Close the socket; ``forget`` the address when no rank is left to come back to it."""
        self._socket.close()
        self._context.term()
        if forget:
            self._path.unlink(missing_ok=True)

    def _kept(self) -> dict[str, str]:
        try:
            kept: dict[str, str] = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            public, secret = zmq.curve_keypair()
            kept = {"port": "0", "public": public.decode(), "secret": secret.decode()}
        return kept

    def _keep(self, kept: dict[str, str]) -> None:
        temporary = self._path.with_suffix(".new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(kept, file)
        os.replace(temporary, self._path)

    def _bind(self, port: int) -> None:
        deadline = time.monotonic() + BIND_SECONDS
        while True:
            try:
                self._socket.bind(f"tcp://127.0.0.1:{port or '*'}")
            except zmq.ZMQError as error:
                # A predecessor that was killed a moment ago may still hold the port.
                if time.monotonic() > deadline:
                    raise ClusterError(
                        f"Port {port} is taken by another program; "
                        "`workbench down` and `workbench up` choose another."
                    ) from error
                time.sleep(0.1)
            else:
                return
