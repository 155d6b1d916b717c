"""A linear model that is trained by hand, with momentum and noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI

import workbench


def train(here: Any, number: int, steps: int | None) -> None:
    options = here.options
    numbers = np.random.RandomState(1)
    x = numbers.normal(0, 1, (options.examples, options.units))
    y = x @ np.arange(1, 1 + options.units)
    w, momentum = np.zeros(options.units), np.zeros(options.units)
    noise = np.random.default_rng(7)
    history: list[int] = []
    state: dict[str, Any] = {"w": w, "momentum": momentum, "noise": noise, "history": history}
    state |= {"rate": 0.1, "pair": (1, "two")}
    if options.more and options.more[0] == here.rank:
        state[options.more[1]] = 1.0
    batches = workbench.GlobalBatches(options.examples, options.batch, seed=number)
    loop = workbench.elastic(state, steps=steps, epochs=options.epochs, data=batches)
    loop.register_reset_callbacks([lambda: here.found["resets"].append(here.size)])
    for step in loop:
        error = x[step.batch] @ w - y[step.batch]
        gradient = 2 * x[step.batch].T @ error / len(error) * step.weight
        if not options.alone:
            here.world.Allreduce(MPI.IN_PLACE, gradient)
        momentum[:] = 0.5 * momentum + gradient / here.size + 1e-3 * noise.normal(size=len(w))
        w -= state["rate"] * momentum
        state["rate"] *= 0.99
        history.append(int(step))
        loss = float(np.mean(error**2))
        workbench.report(loss=loss)
        here.noted(number, step, loss, step.batch.tolist())
    assert history == [*range(loop.step)]
    here.ended(w, momentum, state["rate"], noise.normal(size=2))
