"""Train with a rate that rises to that of all ranks, and note it in each iteration."""

from __future__ import annotations

import chainer
import chainermn

import workbench
from tests.engine.programs.regression import examples, own, trainer
from tests.engine.programs.world import found, write_found

comm = chainermn.create_communicator("naive")
one = trainer(comm, chainer.optimizers.SGD(0.01), own(*examples(amount=320)), 40)
rates: list[float] = []
scaling = workbench.LinearScaling(comm, epochs=2)
one.extend(scaling)
one.extend(
    lambda t: rates.append(t.updater.get_optimizer("main").lr),
    trigger=(1, "iteration"),
    name="note",
    priority=-500,
)
one.run()
plan = scaling.plan
assert plan is not None
found["rates"] = rates
found["plan"] = [plan.start, plan.peak, plan.iterations]
found["shown"] = repr(scaling)
found["loss"] = float(one.observation["main/loss"].array)

write_found()
