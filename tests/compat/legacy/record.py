"""Train small models with fixed seeds and print their losses as JSON, on any stack.

The recorded file beside this one was made on the stack that Chainer 7.8.1 was written for:

    uv venv --python 3.11 legacy
    echo "setuptools<81" > build-constraints.txt
    uv pip install --python legacy --build-constraints build-constraints.txt \
        chainer==7.8.1 numpy==1.23.5 "setuptools<74"
    OPENBLAS_NUM_THREADS=1 legacy/bin/python record.py > numpy-1.23.5.json
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from typing import Any

import chainer
import numpy as np
from chainer import training
from chainer.training import extensions

F = chainer.functions
L = chainer.links


class MLP(chainer.Chain):
    """Three fully connected layers."""

    def __init__(self, units: int = 32) -> None:
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(None, units)
            self.l2 = L.Linear(None, units)
            self.l3 = L.Linear(None, 10)

    def forward(self, x: Any) -> Any:
        return self.l3(F.relu(self.l2(F.relu(self.l1(x)))))


class CNN(chainer.Chain):
    """Two convolutions with batch normalization and dropout."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.c1 = L.Convolution2D(1, 8, 3, pad=1)
            self.bn = L.BatchNormalization(8)
            self.c2 = L.Convolution2D(8, 16, 3, pad=1)
            self.l = L.Linear(None, 10)

    def forward(self, x: Any) -> Any:
        h = F.max_pooling_2d(F.relu(self.bn(self.c1(x.reshape(-1, 1, 8, 8)))), 2)
        return self.l(F.dropout(F.average_pooling_2d(F.relu(self.c2(h)), 2), 0.25))


def data(dtype: Any) -> tuple[Any, Any]:
    """Make 640 images of 8 by 8 pixels in ten classes, the last 140 for evaluation."""
    random = np.random.RandomState(0)
    t = random.randint(0, 10, 640).astype(np.int32)
    patterns = random.rand(10, 64)
    x = (patterns[t] + random.normal(0, 0.5, (640, 64))).astype(dtype)
    return (
        chainer.datasets.TupleDataset(x[:500], t[:500]),
        chainer.datasets.TupleDataset(x[500:], t[500:]),
    )


def train(make_model: Any, optimizer: Any, epochs: int = 3) -> list[dict[str, float]]:
    """Train with the usual loop and return what LogReport wrote, without the times."""
    np.random.seed(0)
    train_set, test_set = data(chainer.get_dtype())
    classifier = L.Classifier(make_model())
    optimizer.setup(classifier)
    optimizer.add_hook(chainer.optimizer_hooks.GradientClipping(1.0))
    optimizer.add_hook(chainer.optimizer_hooks.WeightDecay(1e-4))
    iterator = chainer.iterators.SerialIterator(train_set, 50)
    updater = training.StandardUpdater(iterator, optimizer)
    with tempfile.TemporaryDirectory() as out:
        trainer = training.Trainer(updater, (epochs, "epoch"), out)
        rest = chainer.iterators.SerialIterator(test_set, 50, repeat=False, shuffle=False)
        trainer.extend(extensions.Evaluator(rest, classifier))
        trainer.extend(extensions.LogReport(trigger=(1, "epoch")))
        trainer.run()
        with open(os.path.join(out, "log")) as file:
            log = json.load(file)
    return [{k: v for k, v in entry.items() if k != "elapsed_time"} for entry in log]


def mlp() -> list[dict[str, float]]:
    return train(MLP, chainer.optimizers.Adam())


def cnn() -> list[dict[str, float]]:
    return train(CNN, chainer.optimizers.MomentumSGD(0.05))


def mlp_float16() -> list[dict[str, float]]:
    with chainer.using_config("dtype", chainer.mixed16):
        return train(MLP, chainer.optimizers.MomentumSGD(0.05))


def clipped_float16() -> list[float]:
    """Clip a float16 gradient whose sum of squares does not fit into float16."""
    links = chainer.Chain()
    with links.init_scope():
        links.a = chainer.Parameter(np.zeros(8, np.float16))
        links.b = chainer.Parameter(np.zeros(8, np.float16))
    optimizer = chainer.optimizers.SGD(1.0).setup(links)
    optimizer.add_hook(chainer.optimizer_hooks.GradientClipping(1.0))
    for parameter in links.params():
        parameter.grad = np.full(8, 80.0, np.float16)
    optimizer.update()
    return [float(v) for v in links.a.array]


def lars_float16() -> list[float]:
    """Scale a float16 gradient, once by its norm and once where it is zero."""
    values: list[float] = []
    for gradient in (0.25, 0.0):
        links = chainer.Chain()
        with links.init_scope():
            links.a = chainer.Parameter(np.full(8, 0.5, np.float16))
        optimizer = chainer.optimizers.SGD(1.0).setup(links)
        optimizer.add_hook(chainer.optimizer_hooks.GradientLARS())
        links.a.grad = np.full(8, gradient, np.float16)
        optimizer.update()
        values += [float(v) for v in links.a.array[:2]]
    return values


def summaries() -> dict[str, float]:
    """Average scalars whose sum does not fit into their own precision."""
    result = {}
    for name in ("float16", "float32", "int8"):
        summary = chainer.Summary()
        for _ in range(5000):
            summary.add(np.dtype(name).type(3), weight=np.int8(1))
        mean, deviation = summary.make_statistics()
        result[name] = float(mean)
        result[name + "/deviation"] = float(deviation)
    return result


def categorical() -> list[list[float]]:
    p = np.array([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]], np.float32)
    x = np.array([1, 0, 1], np.int32)
    distribution = chainer.distributions.Categorical(p)
    return [
        [float(v) for v in distribution.log_prob(x).array],
        [float(v) for v in distribution.log_prob(chainer.Variable(x)).array],
    ]


RECORDED = {
    function.__name__: function
    for function in (mlp, cnn, mlp_float16, clipped_float16, lars_float16, summaries, categorical)
}


if __name__ == "__main__":
    json.dump(
        {
            "made with": {
                "command": "OPENBLAS_NUM_THREADS=1 python tests/compat/legacy/record.py",
                "python": platform.python_version(),
                "numpy": np.__version__,
                "chainer": chainer.__version__,
                "machine": platform.machine(),
            },
            **{name: function() for name, function in RECORDED.items()},
        },
        sys.stdout,
        indent=1,
    )
    print()
