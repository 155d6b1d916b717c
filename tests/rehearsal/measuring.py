"""Measure links between all hosts as ``%dist_bandwidth`` does, and print what was found."""

from __future__ import annotations

import json
from pathlib import Path

from mpi4py import MPI

from workbench.core.performance.measurement import measurement_json
from workbench.engine.measurement import exchanges, survey
from workbench.engine.run_context import Current
from workbench.engine.run_log import RunLog

# Links are what this is for; of exchanges a few small ones do.
exchanges.MOST_BYTES = 256_000
exchanges._SIZE_SECONDS = 0.05
survey.EXCHANGE_SECONDS = 1.0

run = Current(RunLog("a-run", MPI.COMM_WORLD.rank, Path("/tmp/log")))
found = survey.Measuring(run, MPI.COMM_WORLD).found()
told = {"rank": MPI.COMM_WORLD.rank, "measurement": found and measurement_json(found)}
print(f"found: {json.dumps(told)}", flush=True)
