"""Train a small network on handwritten digits by `workbench.elastic`, as a user would write it.

Beside that, each rank notes the examples of its steps, and lingers as the test says.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path

import chainer
import chainer.functions as functions
import chainer.links as links
import numpy
from mpi4py import MPI
from sklearn.datasets import load_digits

import workbench

record, seed, epochs = Path(globals()["record"]), globals()["seed"], globals()["epochs"]
comm = MPI.COMM_WORLD
numpy.random.seed(seed)
images, labels = load_digits(return_X_y=True)
order = numpy.random.RandomState(seed).permutation(len(images))
x, y = (images[order] / 16).astype("f"), labels[order].astype("i")
model = links.Classifier(
    chainer.Sequential(links.Linear(64, 64), functions.relu, links.Linear(64, 10))
)
optimizer = chainer.optimizers.Adam(0.003).setup(model)
batches = workbench.GlobalBatches(960, 64, seed=seed)
state = {"model": model, "optimizer": optimizer}


class SlowToSave:
    """A part of the state that takes long to be saved, as that of a large model does."""

    def state_dict(self) -> dict[str, float]:
        """Return it after a while."""
        time.sleep(globals()["cost"])
        return {"cost": globals()["cost"]}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Do nothing."""


if globals()["cost"]:
    state["slow"] = SlowToSave()
name = f"{os.environ['WORKBENCH_GENERATION']}-{comm.rank}.txt"
written = (record / name).open("a", encoding="utf-8")
for step in workbench.elastic(state, data=batches, epochs=epochs):
    print(int(step), *(f"{step.epoch}:{n}" for n in step.batch), file=written, flush=True)
    loss = model(x[step.batch], y[step.batch]) * step.weight
    model.cleargrads()
    loss.backward()
    for _, parameter in sorted(model.namedparams()):
        total = numpy.empty_like(parameter.grad)
        comm.Allreduce(parameter.grad, total)
        parameter.grad = total / comm.size
    optimizer.update()
    workbench.report(loss=comm.allreduce(float(loss.array)) / comm.size)
    with suppress(FileNotFoundError):
        time.sleep(float((record / "pause").read_text()))
with chainer.using_config("train", False), chainer.no_backprop_mode():
    last = float(model(x[960:], y[960:]).array)
if comm.rank == 0:
    values = {"loss": last, "accuracy": float(model.accuracy.array)}
    (record / "final.json").write_text(json.dumps(values | {"iterations": int(step) + 1}))
