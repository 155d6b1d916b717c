"""The layers of two networks for ImageNet, and what one example costs a core."""

from __future__ import annotations

import time
from typing import Any

import chainer
import chainer.functions as functions
import chainer.links as links
import numpy as np

from .exchange_memory import shapes

Layers = tuple[tuple[tuple[int, ...], int], ...]
"""Each gradient's shape, and the width of the output that is computed with it."""

NIN: Layers = (
    ((96, 3, 11, 11), 54),
    ((96, 96, 1, 1), 54),
    ((96, 96, 1, 1), 54),
    ((256, 96, 5, 5), 27),
    ((256, 256, 1, 1), 27),
    ((256, 256, 1, 1), 27),
    ((384, 256, 3, 3), 13),
    ((384, 384, 1, 1), 13),
    ((384, 384, 1, 1), 13),
    ((1024, 384, 3, 3), 6),
    ((1024, 1024, 1, 1), 6),
    ((1000, 1024, 1, 1), 6),
)


def resnet50() -> Layers:
    """Return the 161 gradients of ResNet-50, 25.6 million numbers; each layer has three."""
    widths = [112] * 3
    for width, blocks in ((56, 3), (28, 4), (14, 6), (7, 3)):
        widths += [width] * 3 * (3 * blocks + 1)
    return tuple(zip(shapes(), [*widths, 1, 1], strict=True))


NETWORKS = {"nin": NIN, "resnet50": resnet50()}


class NetworkInNetwork(chainer.Chain):
    """The convolutions of ``NIN``, as they compute."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            for number, (shape, _) in enumerate(NIN):
                stride, pad = (4, 0) if number == 0 else (1, shape[2] // 2)
                one = links.Convolution2D(shape[1], shape[0], shape[2], stride, pad)
                setattr(self, f"layer{number:02}", one)

    def forward(self, x: Any) -> Any:
        for number in range(len(NIN)):
            x = functions.relu(getattr(self, f"layer{number:02}")(x))
            if number in (2, 5, 8):
                x = functions.max_pooling_2d(x, 3, 2)
        return functions.sum(x)


class Residual(links.ResNet50Layers):
    """ResNet-50 with random weights."""

    def __init__(self) -> None:
        super().__init__(pretrained_model=None)

    def forward(self, x: Any) -> Any:
        return functions.sum(super().forward(x, layers=["fc6"])["fc6"])


def computed(network: str) -> float:
    """Return the core seconds of forward and backward pass for one example of 224 pixels."""
    net = {"nin": NetworkInNetwork, "resnet50": Residual}[network]()
    x, took = np.random.default_rng(0).standard_normal((1, 3, 224, 224), "f4"), []
    for _ in range(4):
        begun = time.thread_time()
        net.cleargrads()
        net(x).backward()
        took.append(time.thread_time() - begun)
    return min(took[1:])
