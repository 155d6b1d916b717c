"""Train with dynamic loss scaling and each codec; in the third of four steps one rank overflows."""

from __future__ import annotations

import warnings

import chainer
import numpy as np

from tests.engine.exchange.programs.reference import make, same_on_all
from tests.engine.programs.world import found, rank, write_found
from workbench.core.performance.exchange_model import Codec

warnings.simplefilter("ignore")  # Chainer warns of each gradient that is not finite
STEPS, OVERFLOWS = 4, 2


def loss_of(layer: chainer.Link, inputs: np.ndarray, factor: float) -> chainer.Variable:
    return chainer.functions.sum(layer(inputs)) * factor


for codec in Codec:
    for overlap in (False, True):
        comm = make("auto", compress=str(codec), overlap=overlap)
        # A bias would be averaged without a codec, and say it all.
        layer = chainer.links.Linear(300, 400, nobias=True, initialW=np.ones((400, 300), "f4"))
        actual = chainer.optimizers.SGD(1e-4)
        optimizer = comm.multi_node_optimizer(actual, comm, False).setup(layer)
        actual.loss_scaling(interval=2)
        inputs = np.random.RandomState(rank).rand(2, 300).astype("f4") + 1
        scales, moved = [], []
        for step in range(STEPS):
            before = layer.W.array.copy()
            huge = step == OVERFLOWS and rank == 1
            optimizer.update(loss_of, layer, inputs, 3e38 if huge else 1.0)
            scales.append(float(actual._loss_scale))
            moved.append(not np.array_equal(before, layer.W.array))
        alike = same_on_all([layer.W.array]) and bool(np.isfinite(layer.W.array).all())
        found[f"{codec} {overlap}"] = [scales, moved, alike]

write_found()
