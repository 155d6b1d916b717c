"""Continue saved compression on all ranks but the last, which is new."""

from __future__ import annotations

import numpy as np

from tests.engine.exchange.programs.reference import make, means_of, same_on_all
from tests.engine.programs.world import found, rank, size, write_found

SHAPES = [(300, 200), (9_001,)]


def gradients(step: int) -> list[np.ndarray]:
    random = np.random.default_rng(100 * step + rank)
    return [random.standard_normal(shape, "f4") for shape in SHAPES]


for codec in ("fp16", "int8", "topk", "powersgd"):
    before, after = (make("auto", compress=codec, overlap=False) for _ in range(2))
    for step in range(8):
        means_of(before, gradients(step))
    if rank < size - 1:
        after.exchanger.resume(before.exchanger.compression())
    found[codec] = [same_on_all(means_of(after, gradients(step))) for step in range(8, 12)]

write_found()
