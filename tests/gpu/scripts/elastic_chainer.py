"""Train on GPU 0 of every rank in an elastic loop of Chainer; rank 1 ends itself once in it."""

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

import workbench

comm = workbench.create_communicator(compress="int8")
device = chainer.get_device("@cupy:0")
device.use()
np.random.seed(20_260)  # the same weights and data on all ranks
images = cupy.asarray(np.random.rand(512, 64).astype("f"))
labels = images.reshape(-1, 8, 8).sum(axis=2).argmax(axis=1).astype("i")
model = L.Classifier(
    chainer.Sequential(L.Linear(64, 200), L.BatchNormalization(200), F.relu, L.Linear(200, 8))
)
model.to_device(device)
optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.Adam(), comm)
optimizer.setup(model)
state = {"model": model, "optimizer": optimizer, "counts": cupy.zeros(8), "seen": []}
batches = workbench.GlobalBatches(512, 64, seed=1)
lost = Path(sys.argv[1])
for step in workbench.elastic(state, data=batches, epochs=40):
    optimizer.update(model, images[step.batch], labels[step.batch])
    state["counts"] += 1
    state["seen"].append(int(step))
    time.sleep(0.02)  # long enough for a snapshot
    if comm.rank == 1 and step == 100 and not lost.exists():
        lost.touch()
        os.kill(os.getpid(), signal.SIGKILL)
assert state["seen"] == [*range(320)], state["seen"]
assert state["counts"].tolist() == [320.0] * 8
sums = comm.mpi_comm.allgather([float(cupy.abs(p.array).sum()) for p in model.params()])
assert all(one == sums[0] for one in sums), sums
if comm.rank == 0:
    print(f"CHECKED loss {float(model.loss.array):.3f} after 320 steps on {comm.size} ranks")
