"""What programs hold a communicator against: exact means, and whether ranks have the same bits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256
from typing import Any

import numpy as np
from mpi4py import MPI

import workbench
from tests.engine.programs.world import rank, size, worlds

comm_world = worlds.offer(0)
NAMES = ("auto", "ring", "hierarchical", "mpi")
SHAPES: dict[str, list[tuple[int, ...]]] = {
    "odd": [(1,), (7,), (3, 5), (100_003,), (257, 129)],
    "empty": [(0,), (12_345,), (3, 0)],
    "nothing": [(0,)],
    "one": [()],
    "large": [(300_001,), (9, 9), (70_000,)],
}
TYPES = {"single": "f4", "double": "f8", "half": "f2", "mixed": None}
MIXED = ("f4", "f8", "f2")


def make(*args: Any, **options: Any) -> Any:
    return workbench.create_communicator(*args, **options)


def same_on_all(arrays: Iterable[Any]) -> bool:
    digest = sha256(b"".join(a.tobytes() for a in arrays)).digest()
    return len({*comm_world.allgather(digest)}) == 1


def means_of(
    comm: Any,
    gradients: Iterable[Any],
    names: list[str] | None = None,
    shapes: Sequence[tuple[int, ...]] | None = None,
) -> list[Any]:
    """Return the means of the gradients over the ranks; what changes is the list alone."""
    gradients = [*gradients]
    names = names or [f"/{n}" for n in range(len(gradients))]
    shapes = shapes or [() if g is None else g.shape for g in gradients]
    for number, mean in comm.mean(names, gradients, shapes):
        gradients[number] = mean
    return gradients


def exact(gradients: Iterable[Any]) -> list[Any]:
    """Return the means as NumPy computes them from sums in double precision."""
    means = []
    for gradient in gradients:
        total = gradient.astype("f8")
        comm_world.Allreduce(MPI.IN_PLACE, total)
        dtype = "f4" if gradient.dtype == "f2" else gradient.dtype
        means.append(
            (total.astype(dtype) * (1 / np.array(size)).astype(dtype)).astype(gradient.dtype)
        )
    return means


def wrong_means(shapes: Collection[str] = SHAPES, types: Collection[str] = TYPES) -> list[str]:
    """Return which algorithm's means differ from the exact ones, or between ranks, and for what."""
    return [
        f"{name} {what} {kind} {step}"
        for name in NAMES
        for what in shapes
        for kind in types
        for step in _wrong_steps(name, SHAPES[what], TYPES[kind])
    ]


def _wrong_steps(name: str, shapes: list[tuple[int, ...]], dtype: str | None) -> list[int]:
    comm = make(name)
    random = np.random.RandomState(100 * rank + len(shapes))
    wrong = []
    for step in range(2):
        gradients = [
            np.array(random.randint(-40, 40, shape)).astype(dtype or MIXED[n % 3])
            for n, shape in enumerate(shapes)
        ]
        wanted = exact(gradients)
        got = means_of(comm, gradients)
        fits = all(
            a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(wanted, got, strict=True)
        )
        if not (fits and same_on_all(got)):
            wrong.append(step)
    return wrong
