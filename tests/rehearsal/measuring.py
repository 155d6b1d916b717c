"""Measure links between all hosts as ``%dist_bandwidth`` does, and print the results."""

from __future__ import annotations

import json
from pathlib import Path

from mpi4py import MPI

from workbench.core.performance.bandwidth import measurement_json
from workbench.engine.measurement.exchanges import ExchangeLimits
from workbench.engine.measurement.survey import SurveyRun
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.run_context import RunContext

# Links are what this is for; of exchanges a few small ones are enough.
LIMITS = ExchangeLimits(nbytes=256_000, seconds=1.0, size_seconds=0.05)
run = RunContext(RunLog("a-run", MPI.COMM_WORLD.rank, Path("/tmp/log")))
found = SurveyRun(run, MPI.COMM_WORLD, limits=LIMITS).found()
reported = {"rank": MPI.COMM_WORLD.rank, "measurement": found and measurement_json(found)}
print(f"found: {json.dumps(reported)}", flush=True)
