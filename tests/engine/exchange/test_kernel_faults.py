"""What calls of the compiled modules do with arguments that the package itself never gives."""

from __future__ import annotations

import importlib
import importlib.util
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

codec = pytest.importorskip(
    "workbench.engine.exchange.codec_kernels", reason="built without a C compiler"
)
ring = importlib.import_module("workbench.engine.exchange.ring_kernels")
timed = importlib.import_module("workbench.engine.timed_calls")
MOST = 2**63 - 1


def numbers(count: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.zeros(count, "f4")


@pytest.fixture
def encodes() -> Callable[..., Any]:
    if not codec.IS_SUPPORTED:
        pytest.skip("this processor lacks the instructions")
    return codec.encode  # type: ignore[no-any-return]  # of a module that is imported by name


@pytest.mark.parametrize("block", [8, 9, MOST])
def test_a_block_larger_than_what_there_is_means_one_block(encodes: Any, block: int) -> None:
    values, wire, decoded = np.arange(8, dtype="f4"), np.zeros(12, "u1"), numbers(8)

    assert encodes(codec.INT8, block, values.copy(), wire, None, None, None, 1)
    codec.decode(codec.INT8, block, wire, decoded)

    assert np.abs(decoded - values).max() < 0.1


def test_a_wire_of_another_length_is_refused(encodes: Any) -> None:
    with pytest.raises(ValueError, match="in place of 12"):
        encodes(codec.INT8, MOST, numbers(8), np.zeros(8, "u1"), None, None, None, 1)


def test_encoding_to_no_wire_is_refused(encodes: Any) -> None:
    with pytest.raises(TypeError, match="no buffer"):
        encodes(codec.INT8, 8, numbers(8), None, None, None, None, 1)
    with pytest.raises(TypeError, match="no buffer"):
        codec.decode(codec.INT8, 8, None, numbers(8))


@pytest.fixture
def pair() -> Iterator[tuple[tuple[socket.socket], tuple[socket.socket]]]:
    right, left = socket.socketpair()
    with right, left:
        yield (right,), (left,)


def test_pieces_of_a_ring_that_are_of_bytes_are_refused(pair: Any) -> None:
    with pytest.raises(TypeError, match="single precision"):
        ring.mean(*pair, [[bytearray(4)], [bytearray(4)]], 0, 0.5, lambda: None)


def test_parts_of_a_ring_that_change_their_list_are_read_as_they_were(pair: Any) -> None:
    parts: list[Any] = []

    class Pieces:
        def __iter__(self) -> Iterator[Any]:
            parts.clear()
            return iter([bytearray(4)])

    parts += [Pieces(), [numbers(1)]]

    with pytest.raises(TypeError, match="single precision"):
        ring.mean(*pair, parts, 0, 0.5, lambda: None)


def test_a_ring_whose_sockets_are_closed_leaves_those_alone_that_get_their_numbers() -> None:
    right, its_peer = socket.socketpair()
    left, other_peer = socket.socketpair()
    looked, failed = threading.Event(), []

    def take_part() -> None:
        parts = [[np.full(2000, 7, "f4")] for _ in range(2)]
        try:
            ring.mean((right.fileno(),), (left.fileno(),), parts, 0, 0.5, looked.set)
        except OSError as error:
            failed.append(error)

    with its_peer, other_peer:
        thread = threading.Thread(target=take_part, daemon=True)
        thread.start()
        assert looked.wait(30)
        for one in (right, left):
            one.shutdown(socket.SHUT_RDWR)
            one.close()
        foreign = [*socket.socketpair(), *socket.socketpair()]
        for one in foreign:
            one.send(b"not for the ring")
        thread.join(30)

    assert not thread.is_alive()
    assert isinstance(failed[0], ConnectionResetError)
    for one in foreign:
        with one:
            one.setblocking(False)
            assert one.recv(100) == b"not for the ring"


@pytest.mark.parametrize("counts", [(0, 0), (1, 2), (65, 65)], ids=str)
def test_a_ring_without_as_many_sockets_each_way_is_refused(pair: Any, counts: Any) -> None:
    right, left = (count * way for count, way in zip(counts, pair, strict=True))

    with pytest.raises(ValueError, match="as many sockets each way, from 1 to 64"):
        ring.mean(right, left, [[numbers(1)], [numbers(1)]], 0, 0.5, lambda: None)


def test_a_ring_of_a_socket_that_is_closed_fails_as_a_lost_neighbour_does(pair: Any) -> None:
    pair[0][0].close()

    with pytest.raises(OSError, match="Bad file descriptor"):
        ring.mean(*pair, [[numbers(1)], [numbers(1)]], 0, 0.5, lambda: None)


def imported_again(module: ModuleType) -> ModuleType:
    """Return the module as a second import makes it, beside the first one."""
    assert module.__spec__ is not None
    made = importlib.util.module_from_spec(module.__spec__)
    assert module.__spec__.loader is not None
    module.__spec__.loader.exec_module(made)
    return made


def test_a_second_import_leaves_the_first_one_as_it_is() -> None:
    activity, count = timed.Activity(), timed.CallCount()

    again = imported_again(timed)

    assert count.follow(activity) is False
    assert again.CallCount().follow(again.Activity()) is False
    with pytest.raises(TypeError, match="takes an Activity"):
        again.CallCount().follow(activity)
    del again


def test_counts_go_round_where_no_number_is_as_large() -> None:
    activity, count = timed.Activity(), timed.CallCount()
    activity.steps = activity.exchanges = activity.nbytes = MOST
    count.calls, count.first = MOST, -MOST

    activity.exchanged(MOST, 0.0, 0.0)
    activity.exchanged(float("nan"), 0.0, 0.0)
    activity.end_step(0.0)

    assert activity.steps == -(2**63)
    assert count.follow(activity) is False


def test_an_activity_that_was_never_initialised_has_no_call() -> None:
    bare = timed.Activity.__new__(timed.Activity)

    bare.leave()

    assert bare.call == ""
    assert sys.getrefcount(bare) == 2
