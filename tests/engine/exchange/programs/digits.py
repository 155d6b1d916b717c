"""Train on handwritten digits with each codec: ``… cnn|mlp SEEDS CODECS``, with blanks between."""

from __future__ import annotations

from typing import Any

import chainer
import chainer.functions as functions
import chainer.links as links
import chainermn
import numpy as np
from sklearn.datasets import load_digits

import workbench
from tests.engine.programs.world import arguments, found, rank, size, worlds, write_found

network, seeds, codecs = arguments[0], arguments[1].split(), arguments[2].split()
worlds.offer(0)
images, labels = load_digits(return_X_y=True)
images = (images / 16).astype("f4").reshape(-1, 1, 8, 8)
labels = labels.astype("i4")
order = np.random.RandomState(0).permutation(len(images))
train, test = order[:1000], order[1000:]


class Net(chainer.Chain):
    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            if network == "cnn":
                self.a = links.Convolution2D(1, 8, 3, pad=1)
                self.b = links.Convolution2D(8, 16, 3, pad=1)
                self.c = links.Linear(256, 128)
                self.d = links.Linear(128, 10)
            else:
                self.a = links.Linear(64, 256)
                self.b = links.Linear(256, 256)
                self.d = links.Linear(256, 10)

    def forward(self, x: Any) -> Any:
        h = functions.relu(self.b(functions.relu(self.a(x))))
        if network == "cnn":
            h = functions.relu(self.c(functions.max_pooling_2d(h, 2)))
        return self.d(h)


def accuracy(seed: int, **options: Any) -> float:
    """Return the accuracy of a training in percent."""
    np.random.seed(seed)
    comm = workbench.create_communicator(overlap=False, **options)
    model = links.Classifier(Net())
    optimizer = chainermn.create_multi_node_optimizer(
        chainer.optimizers.MomentumSGD(0.05), comm
    ).setup(model)
    draw, shuffled = np.random.RandomState(1000 * seed), train
    batch = 32 * size
    steps = 15 * len(train) // batch
    for step in range(steps):
        if step in (steps * 6 // 10, steps * 8 // 10):
            optimizer.lr *= 0.2
        if step * batch % len(train) < batch:
            shuffled = draw.permutation(train)
        start = step * batch % (len(train) - batch)
        chosen = shuffled[start + rank : start + batch : size]
        optimizer.update(model, images[chosen], labels[chosen])
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        return 100 * float((model.predictor(images[test]).array.argmax(1) == labels[test]).mean())


for codec in codecs:
    found[codec] = [accuracy(int(seed), compress=codec) for seed in seeds]

write_found()
