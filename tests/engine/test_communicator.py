"""The watched world computes as MPI's own does, and frees ranks that wait for one that failed."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.contract, pytest.mark.mpi]

COLLECTIVES = """
import numpy as np

comm = worlds.offer(0)
assert MPI.COMM_WORLD is comm and comm is not real
mine = np.full(3, rank + 1.0)

total = np.empty(3)
comm.Allreduce(mine, total)
found["Allreduce"] = total.tolist()

gathered = np.empty((size, 3))
comm.Allgather(mine, gathered)
found["Allgather"] = gathered[:, 0].tolist()

told = np.full(2, 7.0) if rank == 0 else np.zeros(2)
comm.Bcast(told, root=0)
found["Bcast"] = told.tolist()

reduced = np.zeros(3)
comm.Reduce(mine, reduced, op=MPI.MAX, root=size - 1)
found["Reduce"] = reduced.tolist()

part = np.empty(1)
comm.Scatter(np.arange(size, dtype=float) if rank == 0 else None, part, root=0)
found["Scatter"] = part.tolist()

swapped = np.empty(size)
comm.Alltoall(np.arange(size, dtype=float) + 10 * rank, swapped)
found["Alltoall"] = swapped.tolist()

right, left = (rank + 1) % size, (rank - 1) % size
received = np.empty(1)
comm.Sendrecv(np.array([float(rank)]), right, recvbuf=received, source=left)
found["Sendrecv"] = received.tolist()

comm.Barrier()
comm.barrier()
found["in"] = watch.call
"""

OBJECTS = """
comm = worlds.offer(0)
thing = {"rank": rank, "list": [1, (2, None)]}
found["gather"] = comm.gather(thing, root=0)
found["allgather"] = comm.allgather(rank)
found["bcast"] = comm.bcast({"from": 0} if rank == 0 else None, root=0)
found["allreduce"] = comm.allreduce("ab"[rank % 2])
found["scatter"] = comm.scatter([f"for {n}" for n in range(size)] if rank == 0 else None)
if size > 1:
    if rank == 0:
        comm.send({"to": 1}, dest=1, tag=5)
    if rank == 1:
        found["recv"] = comm.recv(source=0, tag=5)
"""

DESCENDANTS = """
comm = worlds.offer(0)
children = {
    "Split": comm.Split(rank % 2, rank),
    "Dup": comm.Dup(),
    "Split_type": comm.Split_type(MPI.COMM_TYPE_SHARED),
    "Create": comm.Create(comm.Get_group()),
    "Clone": comm.Clone(),
    "grandchild": comm.Split(0, -rank).Dup(),
}
for name, child in children.items():
    found[name] = [type(child).__name__, child.size, child.rank, child.allreduce(1)]
found["nobody's"] = comm.Split(MPI.UNDEFINED) == MPI.COMM_NULL
"""

TOGETHER = f"""
everything = {{}}
found = everything["collectives"] = {{}}
{COLLECTIVES}
found = everything["objects"] = {{}}
{OBJECTS}
found = everything["descendants"] = {{}}
{DESCENDANTS}
found = everything
"""


@pytest.fixture(scope="module", params=[1, 2, 4], ids="{} ranks".format)
def together(on_ranks, request) -> list[dict[str, dict[str, Any]]]:
    """What each rank found with all of the above; one world serves several tests."""
    return on_ranks(TOGETHER, request.param)


def test_collectives_give_what_mpi_gives(together) -> None:
    size = len(together)
    total = float(sum(range(1, size + 1)))

    for rank, mine in enumerate(together):
        assert mine["collectives"] == {
            "Allreduce": [total] * 3,
            "Allgather": [float(n + 1) for n in range(size)],
            "Bcast": [7.0, 7.0],
            "Reduce": [float(size) if rank == size - 1 else 0.0] * 3,
            "Scatter": [float(rank)],
            "Alltoall": [float(rank + 10 * n) for n in range(size)],
            "Sendrecv": [float((rank - 1) % size)],
            "in": "",
        }


def test_objects_are_pickled_on_their_way(together) -> None:
    size = len(together)
    found = [mine["objects"] for mine in together]

    assert found[0]["gather"] == [{"rank": n, "list": [1, [2, None]]} for n in range(size)]
    for rank, mine in enumerate(found):
        assert mine["allgather"] == [*range(size)]
        assert mine["bcast"] == {"from": 0}
        assert mine["allreduce"] == "abab"[:size]
        assert mine["scatter"] == f"for {rank}"
    assert size == 1 or found[1]["recv"] == {"to": 1}


def test_communicators_that_are_made_from_it_are_watched_too(together) -> None:
    size = len(together)

    for rank, everything in enumerate(together):
        mine = everything["descendants"]
        half = len(range(rank % 2, size, 2))
        assert mine["nobody's"]
        assert mine["Split"] == ["WatchedComm", half, rank // 2, half]
        assert mine["grandchild"] == ["WatchedComm", size, size - 1 - rank, size]
        for name in ("Dup", "Split_type", "Create", "Clone"):
            assert mine[name] == ["WatchedComm", size, rank, size]


WAITING = """
comm = worlds.offer(0)
seen = []

def look():
    while not done.is_set():
        seen.append((watch.call, time.perf_counter() - watch.since))
        time.sleep(0.01)

done = threading.Event()
thread = threading.Thread(target=look)
thread.start()
if rank == 0:
    time.sleep(0.4)
comm.Barrier()
done.set()
thread.join()
found["calls"] = sorted({call for call, _ in seen if call})
found["longest"] = max((since for call, since in seen if call), default=0.0)
found["seconds"] = watch.seconds
"""


def test_a_rank_that_waits_can_be_seen_from_another_thread(on_ranks) -> None:
    late, waiting = on_ranks(WAITING, 2)

    assert waiting["calls"] == ["Barrier"]
    assert waiting["longest"] > 0.2
    assert waiting["seconds"] > 0.2
    assert late["seconds"] < waiting["seconds"]


SUBSETS = """
first = worlds.offer(0)
if rank < 2:
    pair = worlds.offer(2)
    found["pair"] = [MPI.COMM_WORLD.size, MPI.COMM_WORLD.rank, MPI.COMM_WORLD.allreduce(1)]
    found["again"] = worlds.offer(2) is pair
found["all"] = [worlds.offer(4).size, worlds.offer(0) is first, MPI.COMM_WORLD.allreduce(1)]
"""


def test_a_run_may_take_the_first_ranks_alone(on_ranks) -> None:
    found = on_ranks(SUBSETS, 4)

    for rank in (0, 1):
        assert found[rank]["pair"] == [2, rank, 2]
        assert found[rank]["again"]
    for mine in found:
        assert mine["all"] == [4, True, 4]


REVOKING = """
comm = worlds.offer(0)
child = comm.Split(0, rank).Dup()
real.Barrier()  # Open MPI crashes if a communicator is revoked while another rank makes it
blocked_in = {"world": comm, "child": child}[sys.argv[3]]

if rank == 0:  # fails, and never enters the call that the others are in
    time.sleep(0.3)
    worlds.revoke()
else:
    # Each is freed by its own helper thread, as the channel does it.
    threading.Timer(0.3, worlds.revoke).start()
    try:
        blocked_in.allreduce(1)
    except MPI.Exception as error:
        found["echo"] = is_echo(error)
        found["in"] = watch.call

found["recovered"] = worlds.recover()
fresh = worlds.offer(0)
found["fresh"] = [fresh is not comm, fresh.size, fresh.rank, fresh.allreduce(1)]
try:
    comm.Barrier()
except MPI.Exception as error:
    found["stale"] = is_echo(error)
found["second"] = [worlds.recover(), worlds.offer(0).allreduce(1)]
"""


@pytest.mark.parametrize(("size", "blocked_in"), [(2, "world"), (4, "child")])
def test_ranks_that_are_blocked_are_freed_and_get_a_working_world(
    on_ranks, ulfm, size, blocked_in
) -> None:
    found = on_ranks(REVOKING, size, blocked_in)

    for rank, mine in enumerate(found):
        assert mine["recovered"]
        assert mine["fresh"] == [True, size, rank, size]
        assert mine["stale"]
        assert mine["second"] == [True, size]
        assert rank == 0 or (mine["echo"], mine["in"]) == (True, "")


ONE_REVOKES = """
comm = worlds.offer(0)
if rank == 0:
    time.sleep(0.3)
    worlds.revoke()
else:
    try:
        comm.Barrier()
    except MPI.Exception as error:
        found["echo"] = is_echo(error)
worlds.recover()
found["fresh"] = worlds.offer(0).allreduce(1)
"""


def test_one_rank_can_free_the_others(on_ranks, ulfm) -> None:
    found = on_ranks(ONE_REVOKES, 2)

    assert found[1]["echo"]
    assert [mine["fresh"] for mine in found] == [2, 2]


PENDING = """
comm = worlds.offer(0)
if rank == 0:
    comm.send("left over", dest=1, tag=1)
real.Barrier()
worlds.recover()
comm = worlds.offer(0)
if rank == 0:
    comm.send("fresh", dest=1, tag=1)
if rank == 1:
    found["received"] = comm.recv(source=0, tag=1)
"""


def test_a_message_of_the_failed_cell_is_not_taken_for_one_of_the_next(on_ranks, ulfm) -> None:
    assert on_ranks(PENDING, 2)[1]["received"] == "fresh"


SMALLER = """
if rank < 2:
    worlds.offer(2)
real.Barrier()
worlds.recover()
if rank < 2:
    found["pair"] = worlds.offer(2).allreduce(1)
found["all"] = worlds.offer(0).allreduce(1)
"""


def test_subsets_are_made_anew_after_a_recovery(on_ranks, ulfm) -> None:
    found = on_ranks(SMALLER, 4)

    assert [mine.get("pair") for mine in found] == [2, 2, None, None]
    assert [mine["all"] for mine in found] == [4, 4, 4, 4]


INCAPABLE = """
plain = Worlds(fault_tolerant=False)
comm = plain.offer(0)
found["revoked"], found["recovered"] = plain.revoke(), plain.recover()
found["works"] = comm.allreduce(1)
found["echoes"] = [is_echo(ValueError("MPI_ERR_REVOKED")), is_echo(MPI.Exception(MPI.ERR_ARG))]
"""


def test_an_mpi_that_cannot_revoke_says_so_and_goes_on(on_ranks) -> None:
    for mine in on_ranks(INCAPABLE, 2):
        assert mine == {
            "revoked": False,
            "recovered": False,
            "works": 2,
            "echoes": [False, False],
        }


CHAINERMN = """
import workbench.compat
import chainer, chainermn
import numpy as np

worlds.offer(0)
comm = chainermn.create_communicator("naive")
model = chainer.links.Linear(2, 1, initialW=np.full((1, 2), float(rank)))
comm.bcast_data(model)
found["weights"] = model.W.array.tolist()
model.W.grad = np.full((1, 2), rank + 1.0, np.float32)
model.b.grad = np.zeros(1, np.float32)
comm.multi_node_mean_grad(model)
found["mean"] = model.W.grad.tolist()
found["watched"] = type(comm.mpi_comm).__name__
found["told"] = watch.seconds > 0
"""


def test_chainermn_works_in_it_unchanged(on_ranks) -> None:
    for mine in on_ranks(CHAINERMN, 2):
        assert mine["weights"] == [[0.0, 0.0]]
        assert mine["mean"] == [[1.5, 1.5]]
        assert mine["watched"] == "WatchedComm"
        assert mine["told"]
