"""What ChainerMN documents of a communicator's methods, asked of ours: name to whether it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from workbench.frameworks.chainer.create import create_communicator

DTYPES = ("i4", "i8", "f4", "f8")
HALF = (*DTYPES, "f2")
"""``send`` and ``allreduce`` take half precision too."""
SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (3, 0), (1,), (5, 7))


def held(mpi_comm: Any) -> dict[str, bool]:
    """Return which sentence of the documentation holds on this rank."""
    comm = create_communicator("naive", mpi_comm)
    found = {}
    for check in CHECKS:
        for what, holds in check(comm):
            found[f"{check.__name__}: {what}"] = bool(holds)
    comm.finalize()
    return found


Found = Iterator[tuple[str, bool]]


def places(comm: Any) -> Found:
    """Ranks are numbered in the world, on each machine, and over the machines."""
    world = comm.mpi_comm
    yield "rank and size", (comm.rank, comm.size) == (world.rank, world.size)
    yield "all on one machine", (comm.intra_rank, comm.intra_size) == (comm.rank, comm.size)
    yield "the one machine", (comm.inter_rank, comm.inter_size) == (0, 1)


def parts(comm: Any) -> Found:
    """A split has its own ranks, in the order of the keys; messages stay in it."""
    half = comm.split(comm.rank % 2, -comm.rank)
    members = [n for n in reversed(range(comm.size)) if n % 2 == comm.rank % 2]
    yield "order", members[half.rank] == comm.rank
    yield "size", half.size == len(members)
    yield "messages", half.bcast_obj(None if half.rank else comm.rank) == members[0]
    alone = comm.split(comm.rank, 0)
    yield "one alone", (alone.rank, alone.size) == (0, 1)
    yield "sum of one", alone.allreduce_obj(3) == 3


def broadcasts(comm: Any) -> Found:
    """Every rank gets the root's array, whichever rank the root is."""
    for root in range(comm.size):
        for dtype, shape in product(DTYPES, SHAPES):
            sent = np.full(shape, 3 + root, dtype) if comm.rank == root else None
            got = comm.bcast(sent, root=root)
            yield f"{dtype} {shape} of {root}", same(got, np.full(shape, 3 + root, dtype))
    yield "no tuple", refuses(TypeError, partial(comm.split(comm.rank, 0).bcast, pair("f4", 1)))


def gathers(comm: Any) -> Found:
    """The root gets a tuple with one array of each rank, and the others nothing."""
    for root in range(comm.size):
        for dtype, shape in product(DTYPES, SHAPES):
            got = comm.gather(np.full(shape, comm.rank, dtype), root)
            wanted = [np.full(shape, n, dtype) for n in range(comm.size)]
            right = got is None if comm.rank != root else alike(got, wanted)
            yield f"{dtype} {shape} to {root}", right


def gathers_for_all(comm: Any) -> Found:
    """Every rank gets one array of each; a tuple is refused."""
    for dtype, shape in product(DTYPES, SHAPES):
        got = comm.allgather(np.full(shape, comm.rank, dtype))
        yield f"{dtype} {shape}", alike(got, [np.full(shape, n, dtype) for n in range(comm.size)])
    yield "no tuple", refuses(TypeError, partial(comm.allgather, pair("f4", comm.rank)))
    yield "usable after it", comm.allreduce_obj(1) == comm.size


def scatters(comm: Any) -> Found:
    """Each rank gets its piece of the root's; pieces differ in their shapes if they like."""
    for root in range(comm.size):
        for dtype in DTYPES:
            pieces = tuple(np.full((n + 1, 2), 10 * n, dtype) for n in range(comm.size))
            got = comm.scatter(pieces if comm.rank == root else None, root)
            yield f"{dtype} from {root}", same(got, pieces[comm.rank])
    rows = np.arange(comm.size * 3, dtype="f4").reshape(comm.size, 3)
    got = comm.scatter(rows if comm.rank == 0 else None, 0)
    yield "rows of one array", same(got, rows[comm.rank])


def exchanges(comm: Any) -> Found:
    """Rank i's j-th array is rank j's i-th, of whatever size."""
    for dtype in DTYPES:
        sent = tuple(np.full((n + 1,), 10 * comm.rank + n, dtype) for n in range(comm.size))
        wanted = [np.full((comm.rank + 1,), 10 * n + comm.rank, dtype) for n in range(comm.size)]
        yield dtype, alike(comm.alltoall(sent), wanted)
    yield "one too many", refuses(ValueError, partial(comm.alltoall, (*sent, sent[0])))


def sums(comm: Any) -> Found:
    """Every rank gets the sum; what it gave is as it was."""
    for dtype, shape in product(HALF, SHAPES):
        given = np.full(shape, comm.rank + 1, dtype)
        got = comm.allreduce(given)
        total = comm.size * (comm.size + 1) // 2
        yield f"{dtype} {shape}", same(got, np.full(shape, total, dtype))
        yield f"{dtype} {shape} given", same(given, np.full(shape, comm.rank + 1, dtype))
    yield "no tuple", refuses(TypeError, partial(comm.allreduce, pair("f4", comm.rank)))


def messages(comm: Any) -> Found:
    """A neighbour gets an array, or a tuple of arrays of any shapes, as it was sent."""
    for dtype in HALF:
        for shape in SHAPES:
            got = passed(comm, comm.send, comm.recv, np.full(shape, comm.rank, dtype))
            yield f"{dtype} {shape}", same(got, np.full(shape, left_of(comm), dtype))
        got = passed(comm, comm.send, comm.recv, pair(dtype, comm.rank))
        yield f"{dtype} tuple", isinstance(got, tuple) and alike(got, pair(dtype, left_of(comm)))
        got = passed(comm, comm.send, comm.recv, [*pair(dtype, comm.rank)])
        yield f"{dtype} list", alike(got, pair(dtype, left_of(comm)))
    turned = np.arange(6, dtype="f4").reshape(2, 3).T
    yield "a view", same(passed(comm, comm.send, comm.recv, turned), turned)
    mixed = (np.zeros(1, "f4"), np.zeros(1, "f8"))
    yield "two types in one", refuses(TypeError, partial(comm.send, mixed, comm.rank, 0))
    yield "no array", refuses(TypeError, partial(comm.send, 3, comm.rank, 0))


def objects(comm: Any) -> Found:
    """What can be pickled goes to one, from one, to all and from all."""
    mine = {"rank": comm.rank, "lines": ["one", None], "weights": np.full(2, comm.rank)}
    got = passed(comm, comm.send_obj, lambda source, tag: comm.recv_obj(source, tag=tag), mine)
    yield "to a neighbour", got["rank"] == left_of(comm) == got["weights"][0]
    for root in range(comm.size):
        given = ("of", root) if comm.rank == root else None  # ChainerMN insists on none elsewhere
        yield f"bcast of {root}", comm.bcast_obj(given, root=root) == ("of", root)
        got = comm.gather_obj(str(comm.rank), root=root)
        wanted = [str(n) for n in range(comm.size)] if comm.rank == root else None
        yield f"gather to {root}", got == wanted
    long = bytes(range(256)) * 100
    pieces = long if comm.rank == 0 else None
    yield "bcast in pieces", comm.bcast_obj(pieces, max_buf_len=1_000) == long
    yield "sum", comm.allreduce_obj(comm.rank + 1) == comm.size * (comm.size + 1) // 2
    yield "sum of arrays", same(comm.allreduce_obj(np.ones(3)), np.full(3, float(comm.size)))


def tags(comm: Any) -> Found:
    """A message is taken by its tag, whatever came before it."""
    right, left = (comm.rank + 1) % comm.size, left_of(comm)
    sent = [comm.mpi_comm.isend(f"{comm.rank} {tag}", right, tag) for tag in (5, 6)]
    later, sooner = (comm.recv_obj(left, tag=tag) for tag in (6, 5))
    for request in sent:
        request.wait()
    yield "the later first", (later, sooner) == (f"{left} 6", f"{left} 5")


def settings(comm: Any) -> Found:
    """What is set in a scope is a setting, and an unknown one is refused."""
    yield "outside", not comm.within_config_scope
    with comm.config_scope():
        comm.of_ours = 5
        yield "inside", comm.within_config_scope
        with comm.config_scope():
            pass
        yield "still inside", comm.within_config_scope
    yield "outside again", not comm.within_config_scope
    yield "kept", (comm.get_config("of_ours"), comm.of_ours) == (5, 5)
    comm.of_ours = 6
    yield "set outside", comm.get_config("of_ours") == 5
    comm.set_config("batched_copy", False)
    yield "by name", comm.get_config("batched_copy") is False
    yield "unknown", refuses(ValueError, partial(comm.set_config, "no_such_setting"))


CHECKS: tuple[Callable[[Any], Found], ...] = (
    places,
    parts,
    broadcasts,
    gathers,
    gathers_for_all,
    scatters,
    exchanges,
    sums,
    messages,
    objects,
    tags,
    settings,
)


def product(dtypes: tuple[str, ...], shapes: tuple[Any, ...]) -> list[tuple[str, Any]]:
    return [(dtype, shape) for dtype in dtypes for shape in shapes]


def left_of(comm: Any) -> int:
    return int((comm.rank - 1) % comm.size)


def passed(comm: Any, send: Any, receive: Any, data: Any) -> Any:
    """Send something round the ring, and return what came from the left.

    One rank after the other sends, since a send may wait for its receiver. A rank cannot wait for
    itself, so one alone passes nothing on.
    """
    if comm.size == 1:
        return data
    got = None
    for sender in range(comm.size):
        if comm.rank == sender:
            send(data, (sender + 1) % comm.size, 4)
        if comm.rank == (sender + 1) % comm.size:
            got = receive(sender, 4)
    return got


def pair(dtype: str, value: int) -> tuple[np.ndarray, np.ndarray]:
    return np.full((5, 2), value, dtype), np.full(3, value, dtype)


def same(got: Any, wanted: np.ndarray) -> bool:
    return (got.dtype, got.shape) == (wanted.dtype, wanted.shape) and np.array_equal(got, wanted)


def alike(got: Any, wanted: Any) -> bool:
    return len(got) == len(wanted) and all(map(same, got, wanted))


def refuses(error: type[Exception], call: Callable[[], Any]) -> bool:
    try:
        call()
    except error:
        return True
    return False
