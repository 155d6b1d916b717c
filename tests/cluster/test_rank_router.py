"""The router keeps its address, accepts its key alone, and ignores invalid messages."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from workbench.cluster.rank_router import RankRouter
from workbench.core.run.rank_protocol import AskPulse, Hello, Message, Pulse, decode_command, encode
from workbench.errors import ClusterError

RUN = "260101-000000-arun"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rank_router.json"


@pytest.fixture
def router(path: Path) -> Iterator[RankRouter]:
    box = RankRouter(path)
    box.open()
    with contextlib.closing(box):
        yield box


@pytest.fixture
def connect() -> Iterator[Callable[..., zmq.Socket]]:
    """Connect as a rank does; by default with the right key."""
    with zmq.Context() as context, contextlib.ExitStack() as sockets:

        def connect(box: RankRouter, name: str = "1.0", *, key: str | None = "") -> zmq.Socket:
            socket = sockets.enter_context(context.socket(zmq.DEALER))
            socket.linger = 0
            socket.routing_id = name.encode()
            if key is not None:
                socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
                socket.curve_serverkey = (key or box.server_key).encode()
            socket.connect(box.endpoint)
            return socket

        yield connect


def heard(router: RankRouter, count: int) -> list[Message]:
    messages: list[Message] = []
    deadline = time.monotonic() + 10
    while len(messages) < count and time.monotonic() < deadline:
        messages += [one.message for one in router.receive(0.05)]
    return messages


def test_messages_are_received_in_order(router, connect) -> None:
    rank = connect(router)
    sent = [Hello(1, 0), *(Pulse(RUN, 0, number) for number in range(50))]

    for message in sent:
        rank.send(encode(message))

    assert heard(router, 51) == sent


def test_nothing_is_received_when_nothing_comes(router) -> None:
    assert router.receive(0.01) == []


def test_nonsense_is_passed_over(router, connect) -> None:
    rank = connect(router)

    for line in (b"", b"nonsense", b"\xff", b'["Batch",{}]', encode(Hello(1, 0))):
        rank.send(line)

    assert heard(router, 1) == [Hello(1, 0)]


def test_a_message_of_several_frames_is_passed_over(router, connect) -> None:
    rank = connect(router)

    rank.send_multipart([b"one", b"two"])
    rank.send(encode(Hello(1, 0)))

    assert heard(router, 1) == [Hello(1, 0)]


def test_a_command_reaches_the_ranks_that_are_named(router, connect) -> None:
    ranks = [connect(router, f"1.{number}") for number in range(3)]
    for number, rank in enumerate(ranks):
        rank.send(encode(Hello(1, number)))
    heard(router, 3)

    router.send(1, (0, 2), AskPulse(RUN))

    assert ranks[0].poll(5000)
    assert ranks[2].poll(5000)
    assert decode_command(ranks[0].recv()) == AskPulse(RUN)
    assert not ranks[1].poll(50)


def test_a_command_for_no_one_is_dropped(router, connect) -> None:
    router.send(9, (0, 1), AskPulse(RUN))

    rank = connect(router)
    rank.send(encode(Hello(1, 0)))
    assert heard(router, 1) == [Hello(1, 0)]


@pytest.mark.parametrize("key", [None, zmq.curve_keypair()[0].decode()], ids=["no key", "another"])
def test_who_does_not_know_the_key_is_not_heard(router, connect, key) -> None:
    stranger = connect(router, "1.1", key=key)
    with contextlib.suppress(zmq.Again):
        stranger.send(encode(Hello(1, 1)), zmq.DONTWAIT)
    friend = connect(router)
    friend.send(encode(Hello(1, 0)))

    assert heard(router, 1) == [Hello(1, 0)]
    assert router.receive(0.3) == []


def test_it_listens_on_this_machine_alone(router) -> None:
    assert router.endpoint.startswith("tcp://127.0.0.1:")


def test_only_the_owner_may_read_its_address(router, path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [*path.parent.iterdir()] == [path]
    assert json.loads(path.read_text())["public"] == router.server_key


def test_a_successor_has_the_same_address(path) -> None:
    first = RankRouter(path)
    first.open()
    first.close()

    second = RankRouter(path)
    second.open()

    assert (second.endpoint, second.server_key) == (first.endpoint, first.server_key)
    second.close()


def test_a_rank_finds_the_successor_by_itself(path, connect) -> None:
    first = RankRouter(path)
    first.open()
    rank = connect(first)
    rank.send(encode(Hello(1, 0)))
    heard(first, 1)
    first.close()

    second = RankRouter(path)
    second.open()
    rank.send(encode(Pulse(RUN, 0, 1)))

    assert heard(second, 1) == [Pulse(RUN, 0, 1)]
    second.send(1, (0,), AskPulse(RUN))
    assert rank.poll(5000)
    second.close()


def test_a_rank_that_connects_again_takes_the_place_of_its_old_connection(router, connect) -> None:
    old = connect(router)
    old.send(encode(Hello(1, 0)))
    heard(router, 1)

    new = connect(router)
    new.send(encode(Hello(1, 0)))
    heard(router, 1)
    router.send(1, (0,), AskPulse(RUN))

    assert new.poll(5000)


def test_an_address_that_is_forgotten_is_chosen_again(path) -> None:
    first = RankRouter(path)
    first.open()
    first.close(forget=True)
    assert not path.exists()

    second = RankRouter(path)
    second.open()

    assert second.server_key != first.server_key
    second.close()


def test_a_file_that_cannot_be_read_is_replaced(path) -> None:
    path.write_text('{"port": ')

    box = RankRouter(path)
    box.open()

    assert json.loads(path.read_text())["public"] == box.server_key
    box.close()


def test_a_port_that_another_program_took_is_reported(router, path, tmp_path) -> None:
    copy = tmp_path / "copy.json"
    copy.write_text(path.read_text())
    port = json.loads(path.read_text())["port"]
    second = RankRouter(copy)

    with pytest.raises(ClusterError) as refusal:
        second.open(0.2)

    assert str(refusal.value) == (
        f"Port {port} is in use by another program; "
        "`workbench delete` and `workbench up` choose another."
    )
    second.close()


def test_another_descriptor_ends_the_wait_until_it_is_slept_through(router, connect) -> None:
    """The supervisor sleeps on all that concerns it at once."""
    readable, writable = os.pipe()
    router.wake_by(readable)
    os.write(writable, b"1")

    begun = time.monotonic()
    assert router.receive(20.0) == []
    assert time.monotonic() - begun < 10.0
    assert router.readable == {readable}

    router.sleep_through(readable)
    router.receive(0.01)
    assert not router.readable
    os.close(readable)
    os.close(writable)
