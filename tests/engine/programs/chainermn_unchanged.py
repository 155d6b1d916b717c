"""Use ChainerMN in a watched world."""

from __future__ import annotations

import chainer
import chainermn
import numpy as np

from tests.engine.programs.world import found, rank, worlds, write_found
from workbench.engine.timing.mpi_calls import watch

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
found["waited"] = watch.seconds > 0

write_found()
