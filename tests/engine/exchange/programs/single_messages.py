"""Average small gradients in one message, compiled and in Python, by either algorithm."""

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


def exchanger(algorithm: Algorithm, *, compiled: bool) -> Exchanger:
    reducer = Reducer(transport_of(real), algorithm)
    if not compiled:
        reducer.sums = None
    return Exchanger(reducer)


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


for algorithm in (Algorithm.MPI, Algorithm.DOUBLING):
    ways = [exchanger(algorithm, compiled=compiled) for compiled in (True, False)]
    mixed = exchanger(algorithm, compiled=rank != 0)
    for step in range(STEPS):
        means = [averaged(one, arrays(step)) for one in (*ways, mixed)]
        alike = [
            all(np.array_equal(a, b) for a, b in zip(means[1], some, strict=True)) for some in means
        ]
        exact = np.mean([gradients(step, other)[0] for other in range(size)], 0)
        found.setdefault(f"{algorithm}: right", []).append(
            [*alike, bool(np.allclose(means[0][0], exact, atol=1e-6))]
        )
    compiled = ways[0]
    found[f"{algorithm}: kinds"] = [type(one._message).__name__ for one in ways]

    given = arrays(0)
    counts = [sys.getrefcount(one) for one in given]
    found[f"{algorithm}: replaced"] = [
        len(compiled.mean(NAMES, given, SHAPES)) for _ in range(STEPS)
    ]
    found[f"{algorithm}: kept"] = [sys.getrefcount(one) for one in given] == counts

    given = arrays(0)
    if rank == 0:  # only this rank's memory cannot be written as it is
        given[0] = np.asfortranarray(given[0])
    wanted = averaged(ways[1], arrays(0))
    found[f"{algorithm}: from any memory"] = all(
        np.array_equal(a, b) for a, b in zip(wanted, averaged(compiled, given), strict=True)
    )

    given = arrays(0)
    given[1][2] = np.inf if rank == size - 1 else 0
    found[f"{algorithm}: not finite"] = error_of(compiled, given)
    found[f"{algorithm}: unchanged"] = bool(np.array_equal(given[0], arrays(0)[0]))
    found[f"{algorithm}: forgiven"] = bool(
        np.isinf(averaged(compiled, given, forgiving=True)[1][2])
    )

    given = arrays(0)
    if rank == size - 1:
        given[0] = np.zeros((4, 30), "f4")
    found[f"{algorithm}: another shape"] = error_of(compiled, given)
    found[f"{algorithm}: afterwards"] = error_of(compiled, arrays(0))

named = exchanger(Algorithm.RING, compiled=rank != 0)
found["ring: right"] = all(
    np.allclose(a, b, atol=1e-6)
    for a, b in zip(averaged(named, arrays(0)), averaged(ways[0], arrays(0)), strict=True)
)
found["ring: kind"] = type(named._message).__name__

write_found()
