"""Average where one host's link is slow: parts are unequal, and means exact and alike."""

from __future__ import annotations

import numpy as np

from tests.engine.exchange.programs.reference import make, wrong_means
from tests.engine.programs.world import found, print_found

found["shares"] = list(make("auto").reducer.shares)
found["wrong"] = wrong_means(("odd",), ("single",))
comm = make("auto")
for step in range(3):
    gradients = [np.full(700_001, step + comm.rank, "f4")]
    comm.mean(["/a"], gradients, [gradients[0].shape])
    if not (gradients[0] == step + (comm.size - 1) / 2).all():
        found["wrong"].append(f"step {step}")

print_found()
