"""A training that records which examples each of its iterations visits, beside its own work."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import chainer
import chainermn
import numpy

# What is left of an epoch can always be dealt out to 1, 2, 3 or 4 ranks without repeating any.
EXAMPLES, BATCH = 576, 12
STEP_SECONDS = 0.02
record = Path(globals().get("record", "."))
comm = chainermn.create_communicator("naive")
values = numpy.arange(EXAMPLES, dtype="f")[:, None]
whole = chainer.datasets.TupleDataset(values, values / EXAMPLES)
part = chainermn.scatter_dataset(whole, comm, shuffle=True, seed=1)
model = chainer.links.Classifier(chainer.links.Linear(1, 1), chainer.functions.mean_squared_error)
model.compute_accuracy = False
optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.SGD(1e-9), comm)
optimizer.setup(model)
iterator = chainer.iterators.SerialIterator(part, BATCH)
name = f"{os.environ['WORKBENCH_GENERATION']}-{comm.rank}.txt"
written = (record / name).open("a", encoding="utf-8")


def converted(batch: list[Any], device: Any = None) -> Any:
    """Convert a batch as ever, and note its examples, each with its epoch."""
    time.sleep(STEP_SECONDS)
    of_next = iterator.current_position if iterator.is_new_epoch else 0
    of_this = len(batch) - of_next
    epochs = [iterator.epoch - bool(iterator.is_new_epoch)] * of_this + [iterator.epoch] * of_next
    pairs = [f"{epoch}:{int(x[0])}" for (x, _), epoch in zip(batch, epochs, strict=True)]
    print(updater.iteration, *pairs, file=written, flush=True)
    return chainer.dataset.concat_examples(batch, device)


updater = chainer.training.StandardUpdater(iterator, optimizer, converter=converted)
trainer = chainer.training.Trainer(updater, (100_000, "epoch"), str(record))
trainer.run()
