"""Train as a script that asks ChainerMN for its communicator, with a run's options and without."""

from __future__ import annotations

import contextlib
import io
import os

import chainer
import chainer.links as links
import chainermn
import chainermn.communicators.naive_communicator
import numpy as np
from mpi4py import MPI

from tests.engine.programs.world import found, write_found
from workbench.frameworks.chainer.create import substitute


def trained(name="naive", dtype=None, **variables):
    os.environ.update(variables)
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), substitute():
            comm = chainermn.create_communicator(name, allreduce_grad_dtype=dtype)
            np.random.seed(3)
            model = links.Classifier(links.Linear(40, 10))
            optimizer = chainermn.create_multi_node_optimizer(
                chainer.optimizers.SGD(0.5), comm
            ).setup(model)
            losses = []
            for _ in range(4):
                optimizer.update(model, np.eye(10, 40, dtype="f4"), np.arange(10, dtype="i4"))
                losses.append(float(model.loss.array))
    finally:
        for name in variables:
            del os.environ[name]
    codec = getattr(comm, "codec", None)
    return type(comm).__name__, losses, said.getvalue(), codec and codec.value


found["none"] = trained()
found["compress"] = trained(WORKBENCH_COMPRESS="fp16")
found["double"] = trained(WORKBENCH_DOUBLE_BUFFERING="1")
found["flat"] = trained("flat", WORKBENCH_COMMUNICATOR="ring")
found["nccl"] = trained("pure_nccl", np.float16, WORKBENCH_COMMUNICATOR="auto")
found["nccl, int8"] = trained("pure_nccl", np.float16, WORKBENCH_COMPRESS="int8")
found["after"] = trained()


class Derived(chainermn.communicators.naive_communicator.NaiveCommunicator):
    """A communicator of a script's own, which takes more than ChainerMN's."""

    def __init__(self, mpi_comm: MPI.Intracomm, name: str) -> None:
        super().__init__(mpi_comm)
        self.name = name


os.environ["WORKBENCH_COMMUNICATOR"] = "auto"
with substitute():
    found["derived"] = Derived(MPI.COMM_WORLD, name="its own").name
del os.environ["WORKBENCH_COMMUNICATOR"]

write_found()
