"""What ChainerMN asks of a communicator of its own holds for ours, and its parts work on it."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.mpi

CONTRACT = """
import numpy as np
import chainer, chainermn
import chainer.links as L
import workbench

worlds.offer(0)
comm = workbench.create_communicator("naive")
middle = (size - 1) / 2

class Model(chainer.Chain):
    def __init__(self, dtype="f4"):
        super().__init__()
        with self.init_scope(), chainer.using_config("dtype", np.dtype(dtype)):
            self.a = L.Linear(2, 3)
            self.b = L.Linear(3, 4)
            self.c = L.Linear(None, 5)  # has a bias and no weights yet

def fill(model, with_bias=True):
    model.a.W.grad = np.full_like(model.a.W.array, rank)
    model.b.W.grad = np.full_like(model.b.W.array, rank + 1)
    model.c.b.grad = np.full_like(model.c.b.array, rank + 2) if with_bias else None

def are(array, value):
    return bool(np.allclose(array, value))

for dtype in ("f2", "f4", "f8"):
    model = Model(dtype)
    for step in range(2):
        fill(model)
        comm.multi_node_mean_grad(model)
        found[f"mean {dtype} {step}"] = are(model.a.W.grad, middle) and are(
            model.b.W.grad, middle + 1) and are(model.c.b.grad, middle + 2)
        found[f"type {dtype} {step}"] = model.a.W.grad.dtype == np.dtype(dtype)
    model = Model(dtype)
    for step in range(2):
        fill(model, with_bias=False)
        comm.multi_node_mean_grad(model)
        found[f"empty {dtype} {step}"] = are(model.a.W.grad, middle) and model.c.b.grad is None
    model = Model(dtype)
    for step in range(2):
        fill(model, with_bias=rank % 2 == 0)
        comm.multi_node_mean_grad(model, zero_fill=True)
        wanted = sum(n + 2 for n in range(0, size, 2)) / size
        found[f"half empty {dtype} {step}"] = np.allclose(model.c.b.grad, wanted, rtol=1e-3)

model = Model()
fill(model)
chainer.set_debug(True)
try:
    comm.multi_node_mean_grad(model)  # the rest was never computed, and is NaN
except ValueError as error:
    found["debug"] = "diverged" in str(error)
chainer.set_debug(False)

model.a.W.array[:] = rank
comm.bcast_data(model)
found["bcast_data"] = are(model.a.W.array, 0)

right, left = (rank + 1) % size, (rank - 1) % size
pieces = (np.full((5, 2), rank, "f4"), np.full(3, rank, "f4"))
if size > 1:
    if rank % 2 == 0:
        comm.send(pieces, right, 0)
    if rank % 2 == 1 or (size % 2 == 1 and rank == 0):
        found["recv"] = all(are(array, left) for array in comm.recv(left, 0))
    if rank % 2 == 1:
        comm.send(pieces, right, 0)
    if rank % 2 == 0 and not (size % 2 == 1 and rank == 0):
        found["recv"] = all(are(array, left) for array in comm.recv(left, 0))
found["allreduce"] = are(comm.allreduce(np.full(4, rank + 1.0, "f4")), size * (size + 1) / 2)
found["alltoall"] = all(are(a, n) for n, a in enumerate(
    comm.alltoall(tuple(np.full(2, rank, "f4") for _ in range(size)))))

half = comm.split(rank % 2, rank)
model = Model()
fill(model)
half.multi_node_mean_grad(model)
found["split"] = are(model.a.W.grad, np.mean(range(rank % 2, size, 2)))

data = chainermn.scatter_dataset(list(range(12)), comm)
found["scatter"] = sorted(x for some in comm.mpi_comm.allgather(list(data)) for x in some)[:12]
found["scatter"] = len(data) == -(-12 // size)

evaluator = chainer.training.extensions.Evaluator(
    chainer.iterators.SerialIterator(
        chainer.datasets.TupleDataset(
            np.full((4, 2), rank + 1, "f4"), np.zeros(4, "i4")), 4, False, False),
    L.Classifier(L.Linear(2, 2)))
evaluator = chainermn.create_multi_node_evaluator(evaluator, comm)
losses = [float(value) for name, value in evaluator().items() if name.endswith("loss")]
found["evaluator"] = len({*comm.mpi_comm.allgather(losses[0])}) == 1
for double in (False, True):
    np.random.seed(3)
    model = L.Classifier(L.Linear(40, 10))
    optimizer = chainermn.create_multi_node_optimizer(
        chainer.optimizers.SGD(0.5), comm, double_buffering=double).setup(model)
    losses = []
    for step in range(12):
        optimizer.update(model, np.eye(10, 40, dtype="f4"), np.arange(10, dtype="i4"))
        losses.append(float(model.loss.array))
    weights = model.predictor.W.array.tobytes()
    found[f"optimizer {double}"] = losses[-1] < losses[0] and len(
        {*comm.mpi_comm.allgather(weights)}) == 1
    # The first sends the parameters; double buffering updates nothing in the second step either.
    found[f"stale {double}"] = (losses[2] == losses[1]) == double
comm.finalize()
"""


@pytest.mark.parametrize("size", [1, 2, 3], ids="{} ranks".format)
def test_all_that_chainermn_asks_of_a_communicator_holds(on_ranks, size) -> None:
    for mine in on_ranks(CONTRACT, size):
        assert [what for what, right in mine.items() if not right] == []


OVERLAP = """
import numpy as np
import chainer, chainermn
import chainer.functions as F, chainer.links as L
import workbench

worlds.offer(0)

class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.a, self.b, self.c = L.Linear(50, 400), L.Linear(400, 400), L.Linear(400, 3)
            self.unused = L.Linear(300, 300)

    def forward(self, x):
        return self.c(self.b(F.relu(self.b(F.relu(self.a(x))))))  # b is used twice

def weights(accumulates=False, **options):
    np.random.seed(0)
    model, random = L.Classifier(Net()), np.random.RandomState(rank)
    comm = workbench.create_communicator(**options)
    optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.Adam(), comm).setup(model)
    launched = 0
    for step in range(4):
        x, y = random.rand(8, 50).astype("f4"), random.randint(0, 3, 8).astype("i4")
        if accumulates and step == 2:
            def more(target, original=optimizer.is_changed):
                for parameter in target.params():  # as a second backward pass would
                    if parameter.grad is not None:
                        parameter.grad = parameter.grad + 1
                return original(target)
            object.__setattr__(optimizer, "is_changed", more)
        optimizer.update(model, x, y)
        optimizer.__dict__.pop("is_changed", None)
        launched = max(launched, len(comm.exchanger.plan.buckets) if comm.exchanger.plan else 0)
    return b"".join(p.array.tobytes() for _, p in sorted(model.namedparams())), launched

plain, _ = weights(overlap=False)
early, launched = weights(overlap=True)
found["equal"] = np.allclose(np.frombuffer(plain, "f4"), np.frombuffer(early, "f4"), atol=1e-5)
found["alike"] = len({*MPI.COMM_WORLD.allgather(early)}) == 1
found["buckets"] = launched
plain, early = weights(True, overlap=False)[0], weights(True, overlap=True)[0]
found["accumulated"] = np.allclose(
    np.frombuffer(plain, "f4"), np.frombuffer(early, "f4"), atol=1e-5)
"""


@pytest.mark.parametrize("size", [2, 3])
def test_gradients_that_leave_early_are_the_same(on_ranks, size) -> None:
    for mine in on_ranks(OVERLAP, size):
        assert mine == {
            "equal": True,
            "alike": True,
            "buckets": mine["buckets"],
            "accumulated": True,
        }
        assert mine["buckets"]


TWO = """
import numpy as np
import chainer, chainermn
import chainer.links as L
import workbench
from workbench.engine.exchange.exchanger import Exchanger
from workbench.engine.exchange.transport import Transport

worlds.offer(0)
agreed, agree = [], Exchanger._agree
Exchanger._agree = lambda self, *args: agreed.append(self) or agree(self, *args)

class Net(chainer.Chain):
    def __init__(self, seed, units):
        super().__init__()
        np.random.seed(seed)
        with self.init_scope():
            self.a, self.b = L.Linear(50, units), L.Linear(units, 3)

    def forward(self, x):
        return self.b(self.a(x))

def trained(which, double, **options):
    comm = workbench.create_communicator(**options)
    optimizers = []
    for one in which:
        model = L.Classifier(Net(one, (300, 1_000)[one]))
        optimizers.append(chainermn.create_multi_node_optimizer(
            chainer.optimizers.SGD(0.1), comm, double_buffering=double).setup(model))
    draws = [np.random.RandomState(10 * rank + one) for one in which]
    for step in range(6):
        for optimizer, draw in zip(optimizers, draws):
            x, y = draw.rand(8, 50).astype("f4"), draw.randint(0, 3, 8).astype("i4")
            optimizer.update(optimizer.target, x, y)
    if double:
        for optimizer in optimizers:
            comm.landed(optimizer)
    return [b"".join(p.array.tobytes() for _, p in sorted(o.target.namedparams()))
            for o in optimizers]

for how, options in {"plain": {"overlap": False}, "overlap": {"overlap": True},
                     "int8": {"compress": "int8", "overlap": True}}.items():
    for double in (False, True):
        apart = [trained([one], double, **options)[0] for one in (0, 1)]
        agreed.clear()
        both = trained([0, 1], double, **options)
        found[f"{how} {double}"] = both == apart and len({*MPI.COMM_WORLD.allgather(both[0])}) == 1
        found[f"agreed {how} {double}"] = len(agreed) == 2
"""


def test_two_optimizers_of_one_communicator_leave_each_other_alone(on_ranks) -> None:
    for mine in on_ranks(TWO, 2):
        assert [what for what, right in mine.items() if not right] == []


UNMODIFIED = """
import contextlib, io, os
import numpy as np
import chainer, chainermn
import chainer.links as L
from workbench.engine.exchange.creation import substituted

def trained(**variables):
    os.environ.update(variables)
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), substituted():
            comm = chainermn.create_communicator("naive")
            np.random.seed(3)
            model = L.Classifier(L.Linear(40, 10))
            optimizer = chainermn.create_multi_node_optimizer(
                chainer.optimizers.SGD(0.5), comm).setup(model)
            losses = []
            for step in range(4):
                optimizer.update(model, np.eye(10, 40, dtype="f4"), np.arange(10, dtype="i4"))
                losses.append(float(model.loss.array))
    finally:
        for name in variables:
            del os.environ[name]
    return type(comm).__name__, losses, said.getvalue()

found["none"] = trained()
found["compress"] = trained(WORKBENCH_COMPRESS="fp16")
found["double"] = trained(WORKBENCH_DOUBLE_BUFFERING="1")
"""


def test_a_run_s_options_reach_a_script_that_knows_nothing_of_them(on_ranks) -> None:
    first, second = on_ranks(UNMODIFIED, 2)

    name, plain, said = first["none"]
    assert (name, said) == ("NaiveCommunicator", "")
    assert plain[2] < plain[1]
    name, losses, said = first["compress"]
    assert name == "ExchangeCommunicator"
    assert losses == pytest.approx(plain, rel=1e-3)
    assert "asked for the communicator 'naive' and gets 'auto', as --compress says." in said
    name, losses, said = first["double"]
    assert name == "ExchangeCommunicator"
    assert losses[2] == losses[1]  # the gradients of the step before were not there yet
    assert losses[3] == pytest.approx(plain[2], rel=1e-5)
    assert "as --double-buffering says." in said
    assert "uses the mean gradient of the step before" in said
    assert [one[2] for one in second.values()] == ["", "", ""]
