"""Train with two of what a training mostly has one of: ``… COMMUNICATOR``."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import chainer
import chainer.functions as functions
import chainer.links as links
import chainermn
import numpy as np

import workbench
from tests.engine.programs.world import arguments, folder, found, rank, worlds, write_found
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.run_context import RunContext, set_current
from workbench.frameworks.chainer import hook
from workbench.frameworks.chainer.framework import ChainerFramework
from workbench.frameworks.chainer.gradient_noise import NAMES, NoiseScaleMonitor

ChainerFramework().install()
worlds.offer(0)
name = arguments[0]
BATCH, ITERATIONS = 8, 12


def communicator() -> Any:
    if name == "naive":
        return chainermn.create_communicator("naive")
    return workbench.create_communicator(name)


def monitor(log: RunLog, batch: int) -> NoiseScaleMonitor:
    return NoiseScaleMonitor(log, batch, period=lambda *_: 1, report_seconds=0.0)


class Updater(chainer.training.updaters.StandardUpdater):
    """Updates each of its optimizers, as that of a generator and a discriminator does."""

    def update_core(self) -> None:
        x = self.converter(self.get_iterator("main").next())
        for optimizer in self.get_all_optimizers().values():
            loss = functions.mean(optimizer.target(x) ** 2)
            optimizer.target.cleargrads()
            loss.backward()
            optimizer.update()
            chainer.report({"loss": loss}, optimizer.target)


def model(seed: int) -> Any:
    return links.Linear(4, 2, initialW=np.random.RandomState(seed).rand(2, 4).astype("f4"))


def optimizer(comm: Any, target: Any) -> Any:
    own = chainer.optimizers.SGD(0.1)
    return chainermn.create_multi_node_optimizer(own, comm).setup(target)


def trainer(optimizers: dict[str, Any], iterations: int = ITERATIONS) -> Any:
    data = np.random.RandomState(rank).rand(64, 4).astype("f4")
    iterator = chainer.iterators.SerialIterator(data, BATCH, shuffle=False)
    updater = Updater(iterator, optimizers)
    return chainer.training.Trainer(updater, (iterations, "iteration"), out=str(folder / "out"))


def shared() -> dict[str, Any]:
    comm = communicator()
    optimizers = {one: optimizer(comm, model(n)) for n, one in enumerate(("gen", "dis"))}
    trainer(optimizers).run()
    return optimizers


def two_communicators() -> dict[str, Any]:
    optimizers = {one: optimizer(communicator(), model(n)) for n, one in enumerate(("a", "b"))}
    trainer(optimizers).run()
    return optimizers


def one_model() -> dict[str, Any]:
    comm, target = communicator(), model(0)
    optimizers = {"a": optimizer(comm, target), "b": optimizer(comm, target)}
    trainer(optimizers).run()
    return optimizers


def two_names() -> dict[str, Any]:
    one = optimizer(communicator(), model(0))
    trainer({"a": one, "b": one}).run()
    return {"a": one}


def set_up_twice() -> dict[str, Any]:
    one = optimizer(communicator(), model(1))
    one.setup(model(0))
    trainer({"main": one}).run()
    return {"main": one}


def one_after_the_other() -> dict[str, Any]:
    one = optimizer(communicator(), model(0))
    trainer({"main": one}).run()
    trainer({"main": one}).run()
    return {"main": one}


def nested() -> dict[str, Any]:
    comm = communicator()
    outer, inner = optimizer(comm, model(0)), optimizer(comm, model(1))
    training = trainer({"main": outer})
    training.extend(
        lambda _: trainer({"main": inner}, 2).run(), name="inner", trigger=(3, "iteration")
    )
    training.run()
    return {"outer": outer, "inner": inner}


def left_on(optimizer: Any) -> list[str]:
    """Return what is left of our hooks."""
    there = {*vars(optimizer), *vars(optimizer.communicator)}
    return sorted(there & {"update", "multi_node_mean_grad"})


def weights(optimizers: dict[str, Any]) -> list[list[float]]:
    return [one.target.W.array.ravel().tolist() for one in optimizers.values()]


for case in (
    shared,
    two_communicators,
    one_model,
    two_names,
    set_up_twice,
    one_after_the_other,
    nested,
):
    run = RunContext(RunLog("260101-000000-arun", rank, folder / f"rank-{rank}" / "log"))
    set_current(run)
    with patch.object(hook, "NoiseScaleMonitor", monitor):
        optimizers = case()
    set_current(None)
    points: dict[str, list[tuple[int, float]]] = {}
    for iteration, _, pairs in (one for one in run.log._samples if isinstance(one, tuple)):
        for what, value in pairs:
            points.setdefault(what, []).append((iteration, value))
    found[case.__name__] = {
        "weights": weights(optimizers),
        "plain": weights(case()),
        "left": [one for each in optimizers.values() for one in left_on(each)],
        "noise": [points.get(one, [(0, 0.0)])[-1] for one in NAMES],
        "losses": {
            what: [at for at, _ in values]
            for what, values in points.items()
            if what.endswith("/loss")
        },
        "calls": points["exchange/calls"][0][1],
        "iteration": run.log.progress.iteration,
    }

write_found()
