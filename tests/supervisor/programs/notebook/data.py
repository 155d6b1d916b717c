"""The first cell of a notebook: its data."""

from __future__ import annotations

import chainer
import chainermn
import numpy

comm = chainermn.create_communicator("naive")
generator = numpy.random.RandomState(0)
examples = generator.rand(120, 4).astype("f")
whole = chainer.datasets.TupleDataset(examples, examples.sum(axis=1, keepdims=True))
part = chainermn.scatter_dataset(whole, comm, shuffle=True, seed=1)
