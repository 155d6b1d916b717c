"""Train a CNN on digits that are moved, dimmed and covered by noise: ``… SEED EPOCHS CODEC``.

After ``forgetful`` the codec keeps no error feedback. Found is, of each epoch, the mean loss of the
training and the accuracy on the test set in percent.
"""

from __future__ import annotations

from typing import Any

import chainer
import chainer.functions as functions
import chainer.links as links
import chainermn
import numpy as np
from mpi4py import MPI
from sklearn.datasets import load_digits

import workbench
from tests.engine.programs.world import arguments, found, rank, size, worlds, write_found

WIDTH, NOISE = 12, 0.2
IMAGES, TESTS, BATCH = 4_096, 2_048, 128
seed, epochs, codec = int(arguments[0]), int(arguments[1]), arguments[2]
is_forgetful, codec = codec.startswith("forgetful "), codec.removeprefix("forgetful ")
worlds.offer(0)


def made(draw: np.random.RandomState, digits: Any, labels: Any, count: int) -> tuple[Any, Any]:
    """Return images: a digit somewhere, more or less bright, a stroke across it, and noise."""
    images = draw.normal(0, NOISE, (count, 1, WIDTH, WIDTH)).astype("f4")
    chosen = draw.randint(len(digits), size=count)
    for image, number in zip(images, chosen, strict=True):
        y, x = draw.randint(WIDTH - 8 + 1, size=2)
        image[0, y : y + 8, x : x + 8] += draw.uniform(0.5, 1.2) * digits[number]
        stroke, at = draw.uniform(0.2, 0.6), draw.randint(WIDTH)
        (image[0, at] if draw.randint(2) else image[0, :, at])[...] += stroke
    return 2 * images, labels[chosen]


class Net(chainer.Chain):
    def __init__(self) -> None:
        super().__init__()
        he = {"initialW": chainer.initializers.HeNormal()}
        with self.init_scope():
            self.a = links.Convolution2D(1, 16, 3, pad=1, **he)
            self.b = links.Convolution2D(16, 64, 3, pad=1, **he)
            self.c = links.Convolution2D(64, 64, 3, pad=1, **he)
            self.d = links.Linear(576, 256, **he)
            self.e = links.Linear(256, 10)

    def forward(self, x: Any) -> Any:
        h = functions.max_pooling_2d(functions.relu(self.a(x)), 2)
        h = functions.max_pooling_2d(functions.relu(self.b(h)), 2)
        return self.e(functions.relu(self.d(functions.relu(self.c(h)))))


def accuracy(model: Any, images: Any, labels: Any) -> float:
    """Return the accuracy in percent; each rank tests a part."""
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        right = model.predictor(images[rank::size]).array.argmax(1) == labels[rank::size]
    number: int = MPI.COMM_WORLD.allreduce(int(right.sum()))
    return 100 * number / len(labels)


def forget(exchanger: Any) -> None:
    """Clear the error feedback of all buckets."""
    for compressed in exchanger._squeezed.values():
        state = compressed.state()
        compressed.restore({**state, "lost": np.zeros_like(state["lost"])})


digits, labels = load_digits(return_X_y=True)
digits, labels = (digits / 16).astype("f4").reshape(-1, 8, 8), labels.astype("i4")
order = np.random.RandomState(0).permutation(len(digits))
seen, unseen = order[:1200], order[1200:]  # no digit of the test is in the training
test = made(np.random.RandomState(1), digits[unseen], labels[unseen], TESTS)
draw = np.random.RandomState(1000 * seed)
train = made(draw, digits[seen], labels[seen], IMAGES)

np.random.seed(seed)
comm = workbench.create_communicator(overlap=False, compress=codec)
model = links.Classifier(Net())
optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.MomentumSGD(0.05), comm)
optimizer.setup(model)
losses, accuracies = [], []
for epoch in range(epochs):
    if epoch == epochs * 3 // 4:
        optimizer.lr *= 0.2
    shuffled, lost = draw.permutation(IMAGES), 0.0
    for start in range(0, IMAGES, BATCH):
        chosen = shuffled[start + rank : start + BATCH : size]
        optimizer.update(model, train[0][chosen], train[1][chosen])
        lost += float(model.loss.array)
        if is_forgetful:
            forget(optimizer.exchanger)
    losses.append(MPI.COMM_WORLD.allreduce(lost) / size / (IMAGES // BATCH))
    accuracies.append(accuracy(model, *test))

found["loss"], found["accuracy"] = losses, accuracies
write_found()
