"""Train a small network on handwritten digits by Chainer's Trainer, as a user would write it.

Beside that, each rank notes the examples of its iterations, and lingers as the test says.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import chainer
import chainer.functions as functions
import chainer.links as links
import chainermn
import numpy
from sklearn.datasets import load_digits

record, seed, epochs = Path(globals()["record"]), globals()["seed"], globals()["epochs"]
comm = chainermn.create_communicator("naive")
numpy.random.seed(seed)
images, labels = load_digits(return_X_y=True)
order = numpy.random.RandomState(seed).permutation(len(images))
x, y = (images[order] / 16).astype("f"), labels[order].astype("i")
numbers = numpy.arange(960)
whole = chainer.datasets.TupleDataset(x[:960], y[:960], numbers)
part = chainermn.scatter_dataset(whole, comm, shuffle=True, seed=seed)
model = links.Classifier(
    chainer.Sequential(links.Linear(64, 64), functions.relu, links.Linear(64, 10))
)
optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.Adam(0.003), comm)
optimizer.setup(model)
iterator = chainer.iterators.SerialIterator(part, 64 // comm.size)
name = f"{os.environ['WORKBENCH_GENERATION']}-{comm.rank}.txt"
written = (record / name).open("a", encoding="utf-8")


def converted(batch: list[Any], device: Any = None) -> Any:
    """Convert a batch as ever, and note its examples, each with its epoch."""
    of_next = iterator.current_position if iterator.is_new_epoch else 0
    of_this = len(batch) - of_next
    of = [iterator.epoch - bool(iterator.is_new_epoch)] * of_this + [iterator.epoch] * of_next
    pairs = [f"{epoch}:{int(n)}" for (_, _, n), epoch in zip(batch, of, strict=True)]
    print(updater.iteration, *pairs, file=written, flush=True)
    with suppress(FileNotFoundError):
        time.sleep(float((record / "pause").read_text()))
    images, labels, _ = chainer.dataset.concat_examples(batch, device)
    return images, labels


updater = chainer.training.StandardUpdater(iterator, optimizer, converter=converted)
trainer = chainer.training.Trainer(updater, (epochs, "epoch"), os.environ["WORKBENCH_OUTPUT"])
trainer.run()
with chainer.using_config("train", False), chainer.no_backprop_mode():
    loss = float(model(x[960:], y[960:]).array)
if comm.rank == 0:
    values = {"loss": loss, "accuracy": float(model.accuracy.array)}
    (record / "final.json").write_text(json.dumps(values | {"iterations": updater.iteration}))
