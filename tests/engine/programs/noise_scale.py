"""Measure the noise scale at every step: ``… naive``, or a codec of our own communicator."""

from __future__ import annotations

from typing import Any

import chainer
import chainermn
import numpy as np

import workbench
from tests.engine.programs.regression import BATCH, examples, own, run, trainer
from tests.engine.programs.world import arguments, found, rank, write_found
from workbench.engine.exchange import bucket_layout
from workbench.frameworks.chainer.gradient_noise import NoiseScaleMonitor


def communicator(name: str) -> Any:
    if name == "naive":
        return chainermn.create_communicator("naive")
    bucket_layout.DIRECT_BYTES = 0  # so that even four numbers leave during the backward pass
    return workbench.create_communicator(compress=name, overlap=True)


x, y = examples()
# With weights at zero the gradient of one example is -2 y x.
each: Any = -2 * y * x
found["exact"] = float(each.var(axis=0).sum() / (each.mean(axis=0) ** 2).sum())
np.random.seed(rank)
comm = communicator(arguments[0])
training = trainer(comm, chainer.optimizers.SGD(0.0), own(x, y), 1500)
# The hook adds no other monitor where there is one.
monitor = NoiseScaleMonitor(run.log, BATCH, period=lambda *_: 1, decay=0.998, report_seconds=0.0)
with monitor.installed(training.updater):
    training.run()
found["overlaps"] = getattr(comm, "overlaps", False)
for one in run.log._samples:
    found.update(one[2] if isinstance(one, tuple) else ())
found["communicator"] = arguments[0]

write_found()
