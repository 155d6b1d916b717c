"""Train a small network of Chainer on GPU 0 of every rank, with any option of the exchange.

Arguments are a communicator of ChainerMN, and a file: rank 1 creates it, and then ends itself in
the middle of the training.
"""

import os
import signal
import sys
import time
from pathlib import Path

import chainer
import chainer.functions as F  # noqa: N812  # as Chainer's users name it
import chainer.links as L  # noqa: N812  # the same
import chainermn
import cupy
import numpy as np
from chainer.training import StandardUpdater, Trainer

name = sys.argv[1] if len(sys.argv) > 1 else "naive"
lost = sys.argv[2] if len(sys.argv) > 2 else ""
comm = chainermn.create_communicator(name)
device = chainer.get_device("@cupy:0")
device.use()
np.random.seed(20_260)  # the same weights and data on all ranks
images = np.random.rand(1024, 64).astype("f")
labels = images.reshape(-1, 8, 8).sum(axis=2).argmax(axis=1).astype("i")
model = L.Classifier(chainer.Sequential(L.Linear(64, 200), F.relu, L.Linear(200, 8)))
model.to_device(device)
optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.Adam(), comm)
optimizer.setup(model)
data = chainer.datasets.TupleDataset(images, labels)
data = chainermn.scatter_dataset(data, comm, shuffle=True, seed=1)
iterator = chainer.iterators.SerialIterator(data, 64)
trainer = Trainer(StandardUpdater(iterator, optimizer, device=device), (40, "epoch"))
first = []


def loss_of(trainer: Trainer) -> float:
    """Return the latest loss, which a resumed training has as a number."""
    value = trainer.observation["main/loss"]
    return float(getattr(value, "array", value))


@trainer.extend
def note(trainer: Trainer) -> None:
    """Note the first loss, and end rank 1 once if that was asked for."""
    if not first:
        first.append(loss_of(trainer))
    if lost:
        time.sleep(0.02)  # long enough for a snapshot
        if comm.rank == 1 and trainer.updater.iteration == 100 and not Path(lost).exists():
            Path(lost).touch()
            os.kill(os.getpid(), signal.SIGKILL)


start = time.perf_counter()
trainer.run()
seconds = time.perf_counter() - start
loss = loss_of(trainer)
sums = comm.mpi_comm.allgather([float(cupy.abs(p.array).sum()) for p in model.params()])
assert all(one == sums[0] for one in sums), sums
assert trainer.updater.iteration == 40 * 1024 // 64 // comm.size
assert loss < first[0] / 2 or lost, (first, loss)
if comm.rank == 0:
    print(f"CHECKED loss {first[0]:.3f} to {loss:.3f} in {seconds:.1f} s on {comm.size} ranks")
