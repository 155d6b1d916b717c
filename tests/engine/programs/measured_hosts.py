"""Measure links, exchanges and disks of several hosts with a rank each."""

from __future__ import annotations

from mpi4py import MPI

from tests.engine.programs.world import folder, found, print_found, rank
from workbench.core.performance.bandwidth import measurement_json
from workbench.engine.measurement.exchanges import ExchangeLimits
from workbench.engine.measurement.survey import SurveyRun
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.run_context import RunContext

LIMITS = ExchangeLimits(nbytes=1_024_000, seconds=4.0, size_seconds=0.1)
run = RunContext(RunLog("260101-000000-arun", rank, folder / "log"))
measured = SurveyRun(run, MPI.COMM_WORLD, rating=0.2, limits=LIMITS).run()
found["measurement"] = measured and measurement_json(measured)

print_found()
