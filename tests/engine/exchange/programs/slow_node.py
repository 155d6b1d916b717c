"""Average where one host's link is slow: parts are unequal, and means exact and alike."""

from __future__ import annotations

import numpy as np

from tests.engine.exchange.programs.reference import make, means_of, same_on_all, wrong_means
from tests.engine.programs.world import found, print_found

found["shares"] = list(make("auto").reducer.shares)
found["wrong"] = wrong_means(("odd",), ("single",))
comm = make("auto")
for step in range(3):
    got = means_of(comm, [np.full(700_001, step + comm.rank, "f4")])
    if not (np.allclose(got[0], step + (comm.size - 1) / 2) and same_on_all(got)):
        found["wrong"].append(f"step {step}")

print_found()
