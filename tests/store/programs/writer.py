"""Write 200 batches of one rank to a store, once a line has come: ``writer.py STORE RUN RANK``."""

from __future__ import annotations

import sys

from workbench.core.run.rank_protocol import Batch, Sample, Samples
from workbench.store import Store

path, run, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
with Store(path) as store:
    for sequence in range(1, 201):
        samples = [Sample("loss", sequence * 10 + n, 0.0, 0.5) for n in range(10)]
        kept = store.reports.add_batches([Batch(run, rank, sequence, Samples.of(samples))])
        assert kept == {(run, rank): sequence}, kept
