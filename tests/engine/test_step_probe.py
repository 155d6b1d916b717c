"""All ranks meet before some exchanges: waiting and moving are told apart, and nobody is stuck."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.conftest import OnRanks
from workbench.core.performance.step_sampling import (
    MOST_STEPS,
    own_work,
    part_names,
    part_seconds,
    split,
    steps_between,
)
from workbench.engine.step_probe import size_of

Found = list[dict[str, Any]]
LONGER = (1, 5)

STEPPING = """
import numpy as np
from workbench.engine.run_log import RunLog
from workbench.engine.step_time import StepTime

LONGER = float(sys.argv[3]) if sys.argv[3:] else 1.0
comm = worlds.offer(0)
log = RunLog("a-run", rank, folder / f"log-{rank}" / "log")
timing = StepTime(log)

def values():
    points = {}
    for iteration, moment, pairs in log._samples:
        points.update(pairs)
    return points

class Updater:
    def __init__(self, update):
        self.body = update

    def update(self):
        self.body()

def train(steps, update):
    updater = Updater(update)
    with timing.installed(updater):
        for iteration in range(1, steps + 1):
            updater.update()
            timing.step(iteration)
    timing.finish(steps)
    return values()
"""

SLOW_RANK = (
    STEPPING
    + """
gradients = np.ones(1000, np.float32)

def update():
    time.sleep(LONGER * (0.03 if rank == 1 else 0.005))
    comm.Allreduce(MPI.IN_PLACE, gradients)

found.update(train(60, update))
"""
)

MANY_ARRAYS = (
    STEPPING
    + """
arrays = [np.ones(n, np.float32) for n in (10, 200, 3000)]

def update():
    time.sleep(LONGER * 0.02 * (1 + rank))
    for one in arrays:
        comm.Allreduce(MPI.IN_PLACE, one)

found.update(train(60, update))
found["met"] = comm._meetings._met
"""
)

# Ranks whose calls differ on every communicator but in their order on each of them.
UNLIKE = (
    STEPPING
    + """
pair = comm.Split(rank // 2, rank)
everybody = comm.Dup()
first = np.ones(4)

def update():
    if rank < 2:
        pair.Allreduce(MPI.IN_PLACE, first.copy())
    comm.Allreduce(MPI.IN_PLACE, first.copy())
    if rank >= 2:
        pair.Allreduce(MPI.IN_PLACE, first.copy())

if rank == 3:  # has no steps at all, but is in every exchange
    for _ in range(300):
        comm.Allreduce(MPI.IN_PLACE, first.copy())
        pair.Allreduce(MPI.IN_PLACE, first.copy())
else:
    found.update(train(300, update))
for _ in range(40):
    everybody.Allreduce(MPI.IN_PLACE, first.copy())
found["sum"] = comm.allreduce(1)
found["met"] = [c._meetings._met for c in (comm, pair, everybody)]
pair.Free()
"""
)

BARRED = (
    STEPPING
    + """
gradients = np.ones(10, np.float32)

def update():
    time.sleep(LONGER * (0.03 if rank == 1 else 0.005))
    comm.Barrier()
    comm.Allreduce(MPI.IN_PLACE, gradients)

found.update(train(60, update))
"""
)


PREPARED = (
    STEPPING
    + """
gradients = np.ones(10, np.float32)
for _ in range(2000):  # as data is handed out before a training
    comm.Allreduce(MPI.IN_PLACE, gradients)
before = comm._meetings._met

def update():
    time.sleep(0.002)
    comm.Allreduce(MPI.IN_PLACE, gradients)

# The meeting that was agreed on before is at call 8,000 at the latest.
found.update(train(3000, update))
found["met"] = comm._meetings._met - before
"""
)

OURS = (
    STEPPING
    + """
import workbench.compat
import chainer
from workbench.engine.exchange.create import create_communicator

ours = create_communicator(mpi_comm=comm, overlap=sys.argv[4] == "overlap")
model = chainer.links.Linear(30, 100)
model.cleargrads()

def update():
    for parameter in model.params():
        parameter.grad = np.ones_like(parameter.data)
    time.sleep(LONGER * (0.03 if rank == 1 else 0.005))
    ours.multi_node_mean_grad(model)

found.update(train(60, update))
"""
)


def waits(quick, slow, seconds: float) -> bool:
    """Whether the quick rank waits about ``seconds``."""
    enough = 0.5 * seconds <= quick["step/waiting"] <= 2 * seconds
    return enough and max(quick["step/moving"], slow["step/waiting"]) < 0.4 * seconds


def train(on_ranks: OnRanks, program: str, seconds: float, *arguments: str) -> Found:
    """Train on two ranks, of which the quick one waits for ``seconds`` in each step.

    Where other programs take the cores it is done again with steps that are longer.
    """
    for longer in LONGER:
        found = on_ranks(program, 2, str(longer), *arguments)
        if waits(*found, longer * seconds):
            break
    else:
        pytest.fail(f"the quick rank does not wait for {longer * seconds} s: {found}")
    return found


@pytest.mark.mpi
@pytest.mark.contract
@pytest.mark.either_mpi
def test_a_rank_that_waits_is_told_from_one_that_moves_bytes(on_shared_ranks) -> None:
    for parts in train(on_shared_ranks, SLOW_RANK, 0.025):
        assert parts["step/waiting"] + parts["step/moving"] == pytest.approx(
            parts["step/communication"]
        )


@pytest.mark.mpi
@pytest.mark.contract
def test_bytes_and_calls_of_an_exchange_are_counted(on_shared_ranks) -> None:
    for parts in train(on_shared_ranks, MANY_ARRAYS, 0.02):
        assert parts["exchange/calls"] == 3
        assert parts["exchange/nbytes"] == 4 * (10 + 200 + 3000)
        assert 5 <= parts["met"] <= 100


@pytest.mark.mpi
@pytest.mark.contract
def test_ranks_that_do_different_things_meet_all_the_same(on_shared_ranks) -> None:
    found = on_shared_ranks(UNLIKE, 4)

    assert [one["sum"] for one in found] == [4] * 4
    assert len({one["met"][0] for one in found}) == 1
    assert all(met > 1 for one in found for met in one["met"])


@pytest.mark.mpi
def test_a_barrier_of_the_training_counts_as_waiting(on_shared_ranks) -> None:
    train(on_shared_ranks, BARRED, 0.025)


@pytest.mark.mpi
def test_what_was_exchanged_before_the_training_is_no_measure_of_its_steps(on_shared_ranks) -> None:
    first, _ = on_shared_ranks(PREPARED, 2)

    assert first["met"] > 10


@pytest.mark.mpi
@pytest.mark.parametrize("way", ["afterwards", "overlap"])
def test_waiting_is_told_apart_in_our_own_exchange_too(on_shared_ranks, way) -> None:
    quick, _ = train(on_shared_ranks, OURS, 0.025, way)

    assert quick["exchange/nbytes"] == pytest.approx(4 * 3_100, rel=0.01)


@pytest.mark.mpi
def test_a_rank_that_is_alone_meets_nobody(on_shared_ranks) -> None:
    (alone,) = on_shared_ranks(MANY_ARRAYS, 1)

    assert alone["met"] == 0
    assert "step/waiting" not in alone


def test_dear_barriers_and_short_steps_are_looked_at_rarely() -> None:
    assert steps_between(1.0, 1e-4) == 1
    assert steps_between(0.001, 1e-5) == 20
    assert steps_between(0.001, 1e-3) == 510
    assert steps_between(1e-6, 1.0) == MOST_STEPS
    assert 1 < steps_between(0.0, 1e-5) < 100


def test_waiting_and_moving_are_all_of_communication() -> None:
    assert split(5.0, [1.0, 2.0, 30.0]) == (3.0, 2.0)
    assert split(1.0, [2.0]) == (0.0, 1.0)


def test_what_a_rank_does_on_its_own_is_no_communication() -> None:
    parts = {"compute": 1.0, "communication": 5.0, "waiting": 3.0, "moving": 2.0, "other": 0.5}

    assert own_work(parts) == 1.5


def test_messages_between_two_are_a_part_of_their_own_where_there_are_any() -> None:
    whole = {"compute": 1.0, "communication": 2.0, "data": 0.0, "other": 0.0}
    parts = whole | {"point-to-point": 0.5}
    names = part_names({0: whole, 1: parts})

    assert names == ("compute", "communication", "point-to-point", "data", "other")
    assert part_seconds(parts, names) == (1.0, 2.0, 0.5, 0.0, 0.0)
    assert part_seconds(whole, names) == (1.0, 2.0, 0.0, 0.0, 0.0)
    assert own_work(parts) == 1.0


def test_communication_that_was_not_told_apart_counts_as_moving() -> None:
    assert part_seconds({"compute": 1.0, "communication": 2.0}, ("waiting", "moving")) == (0.0, 2.0)


@pytest.mark.parametrize(
    ("buffer", "nbytes"),
    [(memoryview(b"12345678"), 8), ([memoryview(b"1234"), 4, "float"], 4), ([], 0), (1, 0)],
)
def test_the_size_of_a_buffer_is_seen_where_it_says_it(buffer, nbytes) -> None:
    assert size_of(buffer) == nbytes
