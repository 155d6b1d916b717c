"""The compiled ring, on ranks that are threads of this process, over sockets that join them."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.engine.exchange.bucket_layout import BucketLayout, GradientShape, find_disagreement
from workbench.engine.exchange.transport import cut, views

SIZES = st.lists(st.integers(0, 300), max_size=8)

kernels = pytest.importorskip(
    "workbench.engine.exchange.ring_kernels", reason="built without a C compiler"
)

SECONDS = 30.0
Array = np.ndarray[Any, np.dtype[np.float32]]


@contextmanager
def joined(
    size: int, steps: Sequence[int] = (), sockets: int = 1
) -> Iterator[list[tuple[tuple[int, ...], tuple[int, ...]]]]:
    """Give each rank's descriptors to the next and from the previous one.

    Args:
        steps: If given, what is sent arrives in pieces of these numbers of bytes, in turn.
    """
    with ExitStack() as opened:
        ways = []
        for _ in range(size * sockets):
            here, there = (opened.enter_context(one) for one in socket.socketpair())
            if steps:
                relay, further = here, there
                here, came = (opened.enter_context(one) for one in socket.socketpair())
                threading.Thread(target=passed_on, args=(came, relay, steps), daemon=True).start()
                there = further
            ways.append((here, there))
        right = [tuple(here.fileno() for here, _ in ways[k::size]) for k in range(size)]
        left = [tuple(there.fileno() for _, there in ways[k::size]) for k in range(size)]
        yield [(right[k], left[k - 1]) for k in range(size)]


def passed_on(source: socket.socket, target: socket.socket, steps: Sequence[int]) -> None:
    number = 0
    while True:
        try:
            if not (data := source.recv(steps[number % len(steps)])):
                return
            target.sendall(data)
        except OSError:
            return
        number += 1


def exchanged(
    ranks: Sequence[Sequence[Array]], parts: Any, steps: Sequence[int] = (), sockets: int = 1
) -> list[list[tuple[int, int, bool]]]:
    """Average the arrays of all ranks in place; return what each found."""
    size = len(ranks)
    with joined(size, steps, sockets) as ways, ThreadPoolExecutor(size) as pool:
        found = [
            pool.submit(kernels.mean, *ways[k], views(ranks[k], parts), k, 1 / size, lambda: None)
            for k in range(size)
        ]
        return [one.result(SECONDS) for one in found]


def expected(ranks: Sequence[Array], borders: Sequence[int]) -> Array:
    """Return the mean in the order of a ring: each part begins at its own rank."""
    size, result = len(ranks), np.empty_like(ranks[0])
    for part in range(size):
        place = slice(borders[part], borders[part + 1])
        total = ranks[part][place].copy()
        for k in range(1, size):
            total = ranks[(part + k) % size][place] + total
        result[place] = total * np.float32(1 / size)
    return result


@pytest.mark.parametrize("size", [2, 3, 5, 8])
@pytest.mark.parametrize("count", [1, 5, 1_000, 300_001])
def test_means_have_the_bits_of_the_ring(size: int, count: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    arrays = [chance.standard_normal(count).astype("f4") for _ in range(size)]
    parts = cut((count,), size, 7_001)
    wanted = expected(arrays, [count * part // size for part in range(size + 1)])

    found = exchanged([[one] for one in arrays], parts)

    assert found == [[]] * size
    assert all((one == wanted).all() for one in arrays)


@pytest.mark.parametrize("sockets", [2, 3, 7])
@pytest.mark.parametrize("steps", [(), (65_537, 3)], ids=str)
def test_several_sockets_give_the_same_bits(sockets: int, steps: Sequence[int], seed: int) -> None:
    chance = np.random.default_rng(seed)
    lengths = (400_001, 3, 250_000)
    ranks = [[chance.standard_normal(n).astype("f4") for n in lengths] for _ in range(3)]
    before = [np.concatenate(one) for one in ranks]
    borders = [len(before[0]) * part // 3 for part in range(4)]

    found = exchanged(ranks, cut(lengths, 3, 90_001), steps, sockets)

    assert found == [[]] * 3
    for one in ranks:
        assert (np.concatenate(one) == expected(before, borders)).all()


@pytest.mark.parametrize("steps", [(1, 2, 3), (4_099, 7)], ids=str)
def test_bytes_may_come_in_any_pieces(steps: Sequence[int], seed: int) -> None:
    chance = np.random.default_rng(seed)
    lengths = (3_001, 1, 0, 500)
    ranks = [[chance.standard_normal(n).astype("f4") for n in lengths] for _ in range(3)]
    before = [np.concatenate(one) for one in ranks]
    borders = [0, 2_101, 2_101, 3_502]  # the second rank's part is empty

    exchanged(ranks, cut(lengths, 3, 400, (0.6, 0.0, 0.4)), steps)

    for one in ranks:
        assert (np.concatenate(one) == expected(before, borders)).all()


def test_a_sum_that_is_not_finite_is_found_where_it_becomes_so() -> None:
    ranks = [[np.ones(300, "f4")] for _ in range(3)]
    ranks[1][0][5] = np.nan  # of part 0, which rank 1 is the first to add to
    ranks[2][0][205] = np.inf  # of part 2, which it begins itself
    ranks[0][0][110] = ranks[1][0][110] = np.float32(3e38)  # too large together, on rank 0

    found = exchanged(ranks, cut((300,), 3, 1_000))

    assert found[0] == [(1, 0, True), (2, 0, False)]
    assert found[1] == [(0, 0, True), (2, 0, False)]
    assert found[2] == [(0, 0, False)]


def alone(look: Callable[[], object], peer: Callable[[socket.socket], None]) -> Any:
    """Exchange with a peer that only does what ``peer`` does."""
    array = np.ones(2_000_000, "f4")
    with joined(2) as ways:
        other = socket.socket(fileno=ways[1][0][0])
        peer(other)
        other.detach()
        return kernels.mean(*ways[0], views([array], cut((array.size,), 2, 9_999)), 0, 0.5, look)


def test_a_rank_looks_up_while_it_waits_and_raises_what_it_sees() -> None:
    looks: list[float] = []

    def look() -> None:
        looks.append(time.monotonic())
        if len(looks) == 3:
            raise LookupError

    begun = time.monotonic()
    with pytest.raises(LookupError):
        alone(look, lambda _: None)

    assert 0.2 < looks[-1] - begun < SECONDS


def test_a_rank_hears_a_signal_while_it_waits() -> None:
    def raising(*_: object) -> None:
        raise InterruptedError("interrupted")

    before = signal.signal(signal.SIGALRM, raising)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(InterruptedError, match="interrupted"):
            alone(lambda: None, lambda _: None)
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("sent", [0, 3, 400_001])
def test_a_peer_that_closes_its_socket_is_an_error(sent: int) -> None:
    def close(other: socket.socket) -> None:
        # While the exchange is on: it is more than a socket holds.
        threading.Thread(target=give, args=(other.dup(),), daemon=True).start()

    def give(other: socket.socket) -> None:
        with other:
            other.sendall(bytes(sent))
            other.shutdown(socket.SHUT_RDWR)

    with pytest.raises(OSError, match=r"closed|Broken pipe|reset"):
        alone(lambda: None, close)


@pytest.mark.parametrize(
    ("parts", "rank", "error"),
    [
        ([[np.ones(2, "f4")]], 0, ValueError),
        ([[np.ones(2, "f4")], []], 2, ValueError),
        ([[np.ones(2)], []], 0, TypeError),
        ([[np.ones((2, 2), "f4")[:, 0]], []], 0, ValueError),
        ([[np.broadcast_to(np.float32(1), 2)], []], 0, ValueError),
    ],
    ids=["one rank", "no such rank", "type", "strides", "read only"],
)
def test_what_a_ring_cannot_take_is_refused(parts: Any, rank: int, error: type[Exception]) -> None:
    with joined(2) as ways, pytest.raises(error):
        kernels.mean(*ways[0], parts, rank, 0.5, lambda: None)


@given(sizes=SIZES, parts=st.integers(1, 9), most=st.integers(1, 100))
def test_pieces_have_every_element_once_in_order_and_parts_are_equal(sizes, parts, most):
    found = cut(sizes, parts, most)

    elements = [(p.number, n) for part in found for p in part for n in range(p.start, p.stop)]
    lengths = [sum(p.stop - p.start for p in part) for part in found]
    assert elements == [(number, n) for number, size in enumerate(sizes) for n in range(size)]
    assert max(lengths) - min(lengths) <= 1
    assert all(p.stop - p.start <= most for part in found for p in part)


@given(sizes=SIZES, nbytes=st.sampled_from([0, 100_000, 1 << 62]))
def test_a_plan_has_every_gradient_once(sizes, nbytes):
    shapes = [GradientShape(f"/{n}", (200, size), "f4") for n, size in enumerate(sizes)]

    plan = BucketLayout(shapes, nbytes, [*range(len(sizes))][::-1])

    assert sorted(plan.all_slots) == [n for n, size in enumerate(sizes) if size]


def test_what_is_completed_last_is_little_if_it_is_compressed():
    shapes = [GradientShape(f"/{n}", (250, 1000), "f4") for n in range(9)]  # 1 MB each

    def sizes(squeezed: bool) -> list[int]:
        plan = BucketLayout(shapes, 4_000_000, is_squeezed=lambda shape: squeezed)
        return [len(bucket.slots) for bucket in plan.buckets]

    assert sizes(squeezed=False) == [4, 4, 1]
    assert sizes(squeezed=True) == [4, 4, 1]
    shapes.append(shapes[0])
    assert sizes(squeezed=False) == [4, 4, 2]
    assert sizes(squeezed=True) == [4, 4, 1, 1]


@given(sizes=SIZES, nbytes=st.sampled_from([0, 100_000, 1 << 62]))
def test_gradients_that_are_few_go_with_the_header_in_one_message(sizes, nbytes):
    shapes = [GradientShape(f"/{n}", (200, size), "f4") for n, size in enumerate(sizes)]

    plan = BucketLayout(shapes, closing_bytes=nbytes)

    assert not plan.buckets or 800 * sum(sizes) > nbytes
    assert sorted(plan.all_slots) == [n for n, size in enumerate(sizes) if size]


def test_ranks_that_agree_have_nothing_to_be_said():
    shapes = [GradientShape("/a", (3, 2), "f4"), GradientShape("/b", (), "f8")]

    assert find_disagreement([shapes, [*shapes], [*shapes]]) is None


def test_the_rank_that_differs_from_most_is_named():
    usual, odd = [GradientShape("/a", (3, 2), "f4")], [GradientShape("/a", (2, 3), "f4")]

    said = str(find_disagreement([usual, odd, usual]))

    assert "/a has shape (2, 3) on rank 1 and (3, 2) on rank 0" in said
