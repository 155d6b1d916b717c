"""A connection that is away for long is given up; one that is there is not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import zmq

from workbench.engine.supervisor_timeout import SupervisorTimeout, patience


@pytest.fixture
def context() -> Iterator[zmq.Context]:
    with zmq.Context() as context:
        yield context


def rank(context: zmq.Context, given_up: list[bool]) -> tuple[zmq.Socket, SupervisorTimeout]:
    socket = context.socket(zmq.DEALER)
    socket.linger = 0
    return socket, SupervisorTimeout(socket, 60, lambda: given_up.append(True))


def test_who_never_had_contact_gives_up_after_its_patience(context, monkeypatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    given_up: list[bool] = []
    socket, contact = rank(context, given_up)

    with socket:
        contact.look(159.0)
        assert not given_up
        contact.look(161.0)
        contact.close()

    assert given_up


def test_patience_is_counted_from_when_contact_was_lost(context) -> None:
    given_up: list[bool] = []
    socket, contact = rank(context, given_up)
    server = context.socket(zmq.ROUTER)
    server.linger = 0
    port = server.bind_to_random_port("tcp://127.0.0.1")
    with socket:
        socket.connect(f"tcp://127.0.0.1:{port}")
        socket.send(b"")
        assert server.poll(5000)
        contact.look(1e9)
        assert not given_up
        server.close()
        assert contact._events.poll(5000)

        contact.look(2e9)
        contact.look(2e9 + 59)
        assert not given_up
        contact.look(2e9 + 61)
        contact.close()

    assert given_up


def test_a_rank_beside_its_supervisor_waits_for_ever(monkeypatch) -> None:
    monkeypatch.delenv("WORKBENCH_PATIENCE", raising=False)

    assert patience() == 0.0
