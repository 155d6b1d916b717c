"""Average gradients by our own communicator; rank 1 comes late: ``… LONGER overlap|afterwards``."""

from __future__ import annotations

import time

import chainer
import numpy as np

from tests.engine.programs.stepping import LONGER, comm, train
from tests.engine.programs.world import arguments, found, rank, write_found
from workbench.frameworks.chainer.create import create_communicator

ours = create_communicator(mpi_comm=comm, overlap=arguments[1] == "overlap")
model = chainer.links.Linear(30, 100)
model.cleargrads()


def step() -> None:
    for parameter in model.params():
        parameter.grad = np.ones_like(parameter.data)
    time.sleep(LONGER * (0.03 if rank == 1 else 0.005))
    ours.multi_node_mean_grad(model)


found.update(train(60, step))

write_found()
