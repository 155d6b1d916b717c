"""A model's gradients: their bytes, compression by codecs, and when the first bucket is full."""

from __future__ import annotations

import time

import pytest

import workbench.compat  # before chainer is imported
from workbench.engine.timing.step_time import count_sent, gradient_statistics, is_small
from workbench.frameworks.chainer.trainer_time import Arrivals, parameters_of, shapes_of

assert workbench.compat


class Updater:
    """As much of Chainer's updater as there is to ask: six layers of 800 kB each."""

    def __init__(self) -> None:
        import chainer

        layers = (chainer.links.Linear(450, 450) for _ in range(6))
        self.model = chainer.Sequential(*layers)
        self.optimizer = chainer.optimizers.SGD().setup(self.model)

    def get_all_optimizers(self) -> dict[str, object]:
        return {"main": self.optimizer}


def test_the_bytes_of_a_model_and_what_codecs_leave_of_them_are_reported() -> None:
    reported = gradient_statistics(shapes_of(Updater()))

    weights, biases = 6 * 450 * 450, 6 * 450
    assert reported["gradients"] == 4 * (weights + biases)
    assert reported["arrays"] == 12
    assert reported["small"] == pytest.approx(biases / (weights + biases))
    assert reported["powersgd"] == pytest.approx((6 * 4 * 900 + biases) / (weights + biases))
    assert all(
        reported[f"cost {codec}"] > 0 for codec in ("fp16", "bf16", "int8", "topk", "powersgd")
    )


def test_who_has_no_models_tells_nothing() -> None:
    assert gradient_statistics(shapes_of(object())) == {}


def test_what_no_codec_takes_stays_as_it_is() -> None:
    assert is_small((90, 90))
    assert count_sent((90, 90), 4) == 8100
    assert count_sent((1 << 20,), 4) == 1 << 20
    assert count_sent((1000, 25, 40), 4) == 4 * 2000  # both factors


def test_the_first_bucket_leaves_when_it_is_full() -> None:
    import chainer
    import numpy as np

    class Slow(chainer.FunctionNode):
        def forward(self, inputs):
            return inputs

        def backward(self, indexes, gradients):
            time.sleep(0.02)
            return gradients

    updater = Updater()
    arrivals = Arrivals(parameters_of(updater))
    x = np.ones((2, 450), "f4")
    for _ in range(6):
        y = x
        for layer in updater.model:
            (y,) = Slow().apply((layer(y),))
        loss = chainer.functions.mean(y)
        if arrivals.is_due():
            arrivals.watch_pass(chainer.Variable.backward, loss)

    # A second layer no longer fits, so it leaves after the first of six.
    assert 0.6 < arrivals.left < 0.9
