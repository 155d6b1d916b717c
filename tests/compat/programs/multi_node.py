"""Aggregate a variable and share a batch among ranks, as ChainerMN's extensions do."""

from __future__ import annotations

from types import SimpleNamespace

import chainer
import chainermn
import numpy as np
from chainermn.extensions import ObservationAggregator

comm = chainermn.create_communicator("naive")
value = chainer.Variable(np.array(comm.rank + 1, np.float32))
trainer = SimpleNamespace(
    observation={"loss": value},
    updater=SimpleNamespace(iteration=1, epoch=0, epoch_detail=0.1, previous_epoch_detail=0.0),
)
ObservationAggregator(comm, "loss", comm_trigger=lambda trainer: True)(trainer)
mean = float(chainer.as_array(trainer.observation["loss"]))

data = np.arange(6, dtype=np.float32)
iterator = chainermn.iterators.create_multi_node_iterator(
    chainer.iterators.SerialIterator(data, 3, shuffle=False), comm
)
batch = [float(x) for x in next(iterator)]
for rank in range(comm.size):
    comm.mpi_comm.Barrier()
    if rank == comm.rank:
        print(mean, batch, flush=True)
