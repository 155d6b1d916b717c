"""Hold a communicator of ranks on several hosts against the reference."""

from __future__ import annotations

import numpy as np

from tests.engine.exchange.programs.reference import make, means_of, same_on_all, wrong_means
from tests.engine.programs.world import found, print_found, rank
from workbench.core.performance.exchange_model import Codec
from workbench.errors import WorkbenchError

found["wrong"] = wrong_means()
comm = make("auto")
found["shape"] = [comm.reducer.nodes, comm.reducer.per_node, comm.overlaps]
for name in ("auto", "hierarchical"):
    comm = make(name)
    gradients = [np.ones(300_000, "f4"), np.ones(9, "f4")]
    gradients[0][-1] = np.nan if rank == 3 else 1
    try:
        means_of(comm, gradients, ["/a", "/b"])
    except WorkbenchError as error:
        found[f"nan {name}"] = str(error)
for codec in Codec:
    comm = make("auto", compress=str(codec))
    got = means_of(comm, [np.random.RandomState(rank).rand(300, 200).astype("f4")])
    found[f"alike {codec}"] = same_on_all(got)

print_found()
