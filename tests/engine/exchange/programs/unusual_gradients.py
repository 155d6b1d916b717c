"""Average views, a gradient that is there twice, one that is read-only, and one that is unset."""

from __future__ import annotations

import numpy as np

from tests.engine.exchange.programs.reference import exact, make, means_of, same_on_all
from tests.engine.programs.world import found, rank, write_found

comm = make("auto")
base = np.arange(40_000, dtype="f4").reshape(200, 200) + rank
shared = np.full(20_000, rank + 1.0, "f4")
readonly = np.broadcast_to(np.float32(rank + 1), (150, 100))
gradients = [base.T, shared, shared, readonly, base[::2, ::2], np.zeros((5, 5), "f4").T + rank]
wanted = exact(gradients)
for step in range(2):
    got = means_of(comm, [base.T.copy(order="K").view(), *gradients[1:]] if step else gradients)
    if step == 0:
        found["means"] = all(np.array_equal(a, b) for a, b in zip(wanted, got, strict=True))
        found["alike"] = same_on_all(got)
        base[:] = np.arange(40_000, dtype="f4").reshape(200, 200) + rank
        shared[:] = rank + 1

# Chainer fills a gradient with NaN until it is computed.
unset = [np.ones(40_000, "f4"), np.full(9, np.nan, "f4")]
large, small = means_of(make("auto", compress="fp16"), unset)
found["beside unset"] = bool(np.allclose(large, 1) and np.isnan(small).all())

write_found()
