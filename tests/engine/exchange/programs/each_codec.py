"""Average thirty steps with each codec: what is lost, and how many bytes are sent."""

from __future__ import annotations

import numpy as np

from tests.engine.exchange.programs.reference import exact, make, means_of, same_on_all
from tests.engine.programs.world import found, rank, write_found
from workbench.core.performance.exchange_model import Codec

random = np.random.RandomState(rank)
SHAPES = [(300, 200), (40_001,), (9,)]
truth = [np.random.RandomState(7).randn(*shape).astype("f4") for shape in SHAPES]
for codec in Codec:
    for overlap in (False, True):
        comm = make("auto", compress=str(codec), overlap=overlap)
        total = [np.zeros_like(t) for t in truth]
        wanted, alike = [np.zeros_like(t) for t in truth], True
        for _ in range(30):
            gradients = [t + 0.5 * random.randn(*t.shape).astype("f4") for t in truth]
            wanted = [a + b for a, b in zip(wanted, exact(gradients), strict=True)]
            got = means_of(comm, gradients)
            alike &= same_on_all(got)
            total = [a + b for a, b in zip(total, got, strict=True)]
        errors = [
            float(np.linalg.norm(a - t) / np.linalg.norm(t))
            for a, t in zip(total, wanted, strict=True)
        ]
        found[f"{codec} {overlap}"] = [alike, max(errors), comm.exchanger.tally.nbytes]

write_found()
