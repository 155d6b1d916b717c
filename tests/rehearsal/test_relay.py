"""The relay delays, limits and breaks what it carries, and loses none of it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.rehearsal.relay import RESET_AT_ONCE, Relay

RTT = 0.1
MBITS = 8.0  # a million bytes a second
LONG = 100_000


class Echo(threading.Thread):
    """A server that sends back all that it gets, in one go when the other end has closed."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._server.getsockname()
        self.start()

    def run(self) -> None:
        with self._server:
            one, _ = self._server.accept()
            with one, one.makefile("rb") as file:
                one.sendall(file.read())


@pytest.fixture
def relay() -> Iterator[Relay]:
    with Relay(RTT, MBITS, 10 * MBITS) as relay:
        yield relay


def connected(relay: Relay, real: tuple[str, int]) -> socket.socket:
    """Return a connection to the relay."""
    port = relay.forward(("127.0.0.1", 0), real)
    return socket.create_connection(("127.0.0.1", port), 30.0)


def ask(link: socket.socket, text: bytes) -> bytes:
    """Send all, close this direction, and return all that comes back."""
    link.sendall(text)
    link.shutdown(socket.SHUT_WR)
    with link.makefile("rb") as file:
        return file.read()


def test_an_answer_takes_the_round_trips_and_the_rate(relay: Relay) -> None:
    sent = bytes(range(250)) * (LONG // 250)
    with connected(relay, Echo().address) as link:
        begun = time.monotonic()
        assert ask(link, sent) == sent

    # The handshake, the way there and back, and then each direction's rate.
    assert time.monotonic() - begun >= 2.5 * RTT + LONG / 1e6


def test_connections_share_the_rate(relay: Relay) -> None:
    links = [connected(relay, Echo().address) for _ in range(3)]
    begun = time.monotonic()
    asked = [threading.Thread(target=ask, args=(link, bytes(LONG))) for link in links]
    for one in asked:
        one.start()
    for one, link in zip(asked, links, strict=True):
        one.join()
        link.close()

    assert time.monotonic() - begun >= 2.5 * RTT + 3 * LONG / 1e6


def test_in_a_break_nothing_arrives_and_after_it_everything(relay: Relay) -> None:
    with connected(relay, Echo().address) as link:
        relay.part()
        link.sendall(b"in the break")
        link.settimeout(5 * RTT)
        with pytest.raises(TimeoutError):
            link.recv(1)
        relay.rejoin()
        link.settimeout(30.0)

        assert ask(link, b", after it") == b"in the break, after it"


def test_from_another_network_only_new_connections_go_through(relay: Relay) -> None:
    with connected(relay, Echo().address) as old:
        old.sendall(b"before")
        relay.part()
        time.sleep(RTT)
        relay.rejoin(elsewhere=True)
        with connected(relay, Echo().address) as new:
            assert ask(new, b"new") == b"new"
        old.shutdown(socket.SHUT_WR)
        old.settimeout(5 * RTT)

        with pytest.raises(TimeoutError):
            old.recv(1)


def test_a_reset_arrives_at_the_other_end(relay: Relay) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    with server, connected(relay, server.getsockname()) as link:
        one, _ = server.accept()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_ONCE)
        one.close()

        with pytest.raises(ConnectionResetError):
            link.recv(1)


def test_a_connection_that_is_refused_ends(relay: Relay) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()

    with connected(relay, closed) as link, pytest.raises(ConnectionResetError):
        link.recv(1)
