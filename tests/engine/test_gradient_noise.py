"""The gauge of a real ChainerMN training comes to the noise scale that its data has."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.analysis.step_breakdown import anatomy_of
from workbench.core.performance.step_sampling import gauge_period
from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import Batch, Sample
from workbench.engine.gradient_noise import squared_norm
from workbench.store import Store

pytestmark = pytest.mark.mpi

TRAINING = """
import contextlib
import workbench.compat
import numpy as np
import chainer
import chainermn
from workbench.engine import gradient_noise
from workbench.engine.chainer_hook import hook_chainer
from workbench.engine.run_context import Current, set_current
from workbench.engine.run_log import RunLog

hook_chainer()
worlds.offer(0)
run = Current(RunLog("a-run", rank, folder / f"rank-{rank}" / "log"))
set_current(run)

def trainer(comm, optimizer, data, batch, steps):
    model = chainer.links.Classifier(
        chainer.links.Linear(4, 1, initialW=np.zeros((1, 4), np.float32), nobias=True),
        lossfun=chainer.functions.mean_squared_error,
    )
    model.compute_accuracy = False
    many = chainermn.create_multi_node_optimizer(optimizer, comm).setup(model)
    iterator = chainer.iterators.SerialIterator(data, batch)
    updater = chainer.training.StandardUpdater(iterator, many)
    return chainer.training.Trainer(updater, (steps, "iteration"), out=str(folder / "out"))

def regression(seed, amount=4096, noise=2.0):
    numbers = np.random.RandomState(seed)
    x = numbers.normal(0, 1, (amount, 4)).astype(np.float32)
    y = x @ np.full((4, 1), 0.5, np.float32)
    y += numbers.normal(0, noise, y.shape).astype(np.float32)
    return x, y
"""

GAUGED = (
    TRAINING
    + """
gradient_noise.gauge_period = lambda *_: 1
gradient_noise.TELL_SECONDS = 0.0
gradient_noise.gauged = __import__("functools").partial(gradient_noise.gauged, decay=0.998)
x, y = regression(0)
# With weights at zero the gradient of one example is -2 y x.
each = -2 * y * x
found["exact"] = float(each.var(axis=0).sum() / (each.mean(axis=0) ** 2).sum())
mine = chainer.datasets.TupleDataset(x[rank::size], y[rank::size])
np.random.seed(rank)
if sys.argv[3] == "naive":
    comm = chainermn.create_communicator("naive")
else:
    import workbench
    from workbench.engine.exchange import bucket_layout

    bucket_layout.DIRECT_BYTES = 0  # so that even four numbers leave during the backward pass
    comm = workbench.create_communicator(compress=sys.argv[3], overlap=True)
trainer(comm, chainer.optimizers.SGD(0.0), mine, 16, 1500).run()
found["overlaps"] = getattr(comm, "overlaps", False)
for _, _, pairs in run.log._samples:
    found.update(pairs)
found["communicator"] = sys.argv[3]
"""
)

SCALED = (
    TRAINING
    + """
import workbench

comm = chainermn.create_communicator("naive")
x, y = regression(0, amount=320)
mine = chainer.datasets.TupleDataset(x[rank::size], y[rank::size])
one = trainer(comm, chainer.optimizers.SGD(0.01), mine, 16, 40)
rates = []
scaling = workbench.LinearScaling(comm, epochs=2)
one.extend(scaling)
one.extend(lambda t: rates.append(t.updater.get_optimizer("main").lr), trigger=(1, "iteration"),
           name="note", priority=-500)
optimizer = one.updater.get_optimizer("main")
one.run()
found["rates"] = rates
found["plan"] = [scaling.plan.start, scaling.plan.peak, scaling.plan.iterations]
found["shown"] = repr(scaling)
found["loss"] = float(one.observation["main/loss"].array)
"""
)


@pytest.fixture(scope="module")
def gauged(on_shared_ranks) -> list[dict[str, float]]:
    """What two ranks found, gauging every step."""
    return on_shared_ranks(GAUGED, 2, "naive")


@pytest.fixture(scope="module")
def overlapping(on_shared_ranks) -> list[dict[str, float]]:
    """The same with gradients that leave during the backward pass."""
    return on_shared_ranks(GAUGED, 2, "none")


def test_gradients_that_leave_early_are_gauged_alike(overlapping) -> None:
    assert overlapping[0]["overlaps"]
    test_the_noise_scale_comes_near_that_of_the_data(overlapping)


def test_what_is_put_off_is_not_gauged(on_shared_ranks) -> None:
    found = on_shared_ranks(GAUGED, 2, "topk")

    assert [name for one in found for name in one if name.startswith("gauge/")] == []


def test_the_noise_scale_comes_near_that_of_the_data(gauged) -> None:
    signal = np.mean([one["gauge/signal"] for one in gauged])
    noise = np.mean([one["gauge/noise"] for one in gauged])

    assert all(one["gauge/steps"] >= 1400 for one in gauged)
    assert noise / signal == pytest.approx(gauged[0]["exact"], rel=0.3)


def test_the_advice_stands_below_the_verdict(gauged, tmp_path) -> None:
    with Store(tmp_path / "store.sqlite3") as store:
        run = store.wish_run(RunWish("260101-000000-aaaa", "fit", RunKind.CELL, "pass")).id
        for rank, values in enumerate(gauged):
            samples = tuple(
                Sample(name, time, 0.0, value)
                for time in range(1, 11)
                for name, value in values.items()
                if "/" in name and not isinstance(value, str)
            )
            store.add_batches([Batch(run, rank, 1, samples)])
        store.put_run_fact(run, state=RunState.FINISHED)

        advice = anatomy_of(store, store.run(run)).says[-1]

    assert advice.startswith("Useful batch: about ")
    assert advice.endswith("; all ranks together use 32.")


def test_the_rate_rises_to_that_of_all_ranks(on_ranks) -> None:
    first, second = on_ranks(SCALED, 2)

    assert first["plan"] == pytest.approx([0.01, 0.02, 20])
    assert first["rates"] == second["rates"]
    assert first["rates"][:2] == pytest.approx([0.0105, 0.011])
    assert first["rates"][19:] == pytest.approx([0.02] * 21)
    assert first["shown"] == "<LinearScaling 0.01 to 0.02 in 20 iterations>"
    assert np.isfinite(first["loss"])


def test_dear_gauges_are_taken_rarely_and_by_all_ranks_at_once() -> None:
    assert gauge_period(1.0, 1e-3) == 1
    assert gauge_period(0.001, 1e-4) == 64
    assert gauge_period(0.0016, 1e-4) == 32
    assert gauge_period(1e-6, 1.0) == 1024
    assert gauge_period(0.0, 1.0) > 1


def test_half_precision_does_not_overflow() -> None:
    class Parameter:
        def __init__(self, grad) -> None:
            self.grad = grad

    class Model:
        def params(self) -> list[Parameter]:
            return [Parameter(np.full(100, 200, np.float16)), Parameter(None)]

    assert squared_norm(Model()) == pytest.approx(4e6)
