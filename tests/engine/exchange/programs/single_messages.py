"""Average small gradients in one message, by either algorithm."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tests.engine.programs.world import found, rank, real, size, write_found
from workbench.core.performance.exchange_model import Algorithm
from workbench.engine.exchange.exchanger import Exchanger
from workbench.engine.exchange.reducer import Reducer
from workbench.engine.exchange.transport import transport_of
from workbench.errors import GradientError

NAMES = ["/a", "/b", "/none", "/scalar"]
SHAPES: list[tuple[int, ...]] = [(30, 4), (5,), (0,), ()]
STEPS = 3


def gradients(step: int, of: int = rank) -> list[Any]:
    random = np.random.default_rng([step, of])
    return [random.standard_normal(shape, "f4") * np.ones(shape, "f4") for shape in SHAPES]


def arrays(step: int) -> list[Any]:
    return [np.array(one, "f4") for one in gradients(step)]


def averaged(one: Exchanger, given: list[Any], *, forgiving: bool = False) -> list[Any]:
    news = one.mean(tuple(NAMES), given, SHAPES, forgiving=forgiving)
    for number, mean in news:
        given[number] = mean
    return given


def error_of(one: Exchanger, given: list[Any]) -> str:
    try:
        averaged(one, given)
    except GradientError as error:
        return str(error)
    return "no error"


for algorithm in (Algorithm.MPI, Algorithm.RING):
    one = Exchanger(Reducer(transport_of(real), algorithm))
    for step in range(STEPS):
        mean = averaged(one, arrays(step))[0]
        exact = np.mean([gradients(step, other)[0] for other in range(size)], 0)
        found.setdefault(f"{algorithm}: right", []).append(
            bool(np.allclose(mean, exact, atol=1e-6))
        )
    found[f"{algorithm}: kind"] = type(one._message).__name__

    given = arrays(0)
    counts = [sys.getrefcount(array) for array in given]
    for _ in range(STEPS):
        one.mean(NAMES, given, SHAPES)
    found[f"{algorithm}: kept"] = [sys.getrefcount(array) for array in given] == counts

    given, wanted = arrays(0), averaged(one, arrays(0))
    if rank == 0:  # only this rank's memory cannot be written as it is
        given[0] = np.asfortranarray(given[0])
    found[f"{algorithm}: from any memory"] = all(
        np.array_equal(a, b) for a, b in zip(wanted, averaged(one, given), strict=True)
    )

    given = arrays(0)
    given[1][2] = np.inf if rank == size - 1 else 0
    found[f"{algorithm}: not finite"] = error_of(one, given)
    found[f"{algorithm}: unchanged"] = bool(np.array_equal(given[0], arrays(0)[0]))
    found[f"{algorithm}: forgiven"] = bool(np.isinf(averaged(one, given, forgiving=True)[1][2]))

    given = arrays(0)
    if rank == size - 1:
        given[0] = np.zeros((4, 30), "f4")
    found[f"{algorithm}: another shape"] = error_of(one, given)
    found[f"{algorithm}: afterwards"] = error_of(one, arrays(0))

write_found()
