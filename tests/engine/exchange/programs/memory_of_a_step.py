"""Find how much new memory a step takes with each codec that keeps no residual of its own."""

from __future__ import annotations

import tracemalloc

import numpy as np

from tests.engine.exchange.programs.reference import make, means_of
from tests.engine.programs.world import found, write_found

for codec in ("none", "fp16", "bf16", "int8"):
    for overlap in (False, True):
        comm = make("auto", compress=codec, overlap=overlap)
        gradients = [np.ones(400_000, "f4"), np.ones((300, 500), "f4"), np.ones(77, "f4")]
        for _ in range(3):
            means_of(comm, gradients)
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        means_of(comm, gradients)
        found[f"{codec} {overlap}"] = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()

write_found()
