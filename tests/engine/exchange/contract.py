"""Programs of ranks that hold a communicator against an exact reference."""

from __future__ import annotations

READY = """
import tracemalloc
from types import SimpleNamespace
import numpy as np
import workbench
from workbench.core.performance.exchange_model import Algorithm, Codec
from workbench.errors import WorkbenchError

comm_world = worlds.offer(0)
NAMES = ("auto", "ring", "doubling", "hierarchical", "mpi")

def make(*args, **options):
    return workbench.create_communicator(*args, **options)

def same_on_all(arrays):
    return len({*comm_world.allgather(b"".join(a.tobytes() for a in arrays))}) == 1

def means_of(comm, gradients, names=None, shapes=None):
    gradients = [*gradients]
    names = names or [f"/{n}" for n in range(len(gradients))]
    shapes = shapes or [() if g is None else g.shape for g in gradients]
    for number, mean in comm.mean(names, gradients, shapes):
        gradients[number] = mean
    return gradients

def exact(gradients):
    total = [comm_world.allreduce(g.astype("f8")) for g in gradients]
    return [(t.astype("f4" if g.dtype == "f2" else g.dtype) * (1 / np.array(size)).astype(
        "f4" if g.dtype == "f2" else g.dtype)).astype(g.dtype) for t, g in zip(total, gradients)]
"""

EXACT = (
    READY
    + """
SETS = {
    "odd": [(1,), (7,), (3, 5), (100_003,), (257, 129)],
    "empty": [(0,), (12_345,), (3, 0)],
    "nothing": [(0,)],
    "one": [()],
    "large": [(300_001,), (9, 9), (70_000,)],
}
TYPES = {"single": "f4", "double": "f8", "half": "f2", "mixed": None}
MIXED = ("f4", "f8", "f2")
wrong = []
for name in NAMES:
    for what, shapes in SETS.items():
        for kind, dtype in TYPES.items():
            comm = make(name)
            random = np.random.RandomState(100 * rank + len(shapes))
            for step in range(2):
                gradients = [
                    np.array(random.randint(-40, 40, shape)).astype(dtype or MIXED[n % 3])
                    for n, shape in enumerate(shapes)
                ]
                wanted = exact(gradients)
                got = means_of(comm, gradients)
                fits = all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(wanted, got))
                if not (fits and same_on_all(got)):
                    wrong.append(f"{name} {what} {kind} {step}")
found["wrong"] = wrong
"""
)
