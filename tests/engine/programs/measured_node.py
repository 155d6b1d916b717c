"""Measure ranks of one node, and stop another measurement between two steps."""

from __future__ import annotations

from tests.engine.programs.world import folder, found, rank, worlds, write_found
from workbench.core.performance.bandwidth import measurement_json
from workbench.engine.boundary import RunStopped
from workbench.engine.measurement.exchanges import ExchangeLimits
from workbench.engine.measurement.survey import SurveyRun, measure
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.run_context import RunContext

LIMITS = ExchangeLimits(nbytes=1_024_000, seconds=4.0, size_seconds=0.1)
run = RunContext(RunLog("260101-000000-arun", rank, folder / f"rank-{rank}" / "log"))
measured = SurveyRun(run, worlds.offer(0), source=str(folder), limits=LIMITS).run()
if measured:
    found["measurement"] = measurement_json(measured)
found["done"] = run.log.progress.iteration, run.log.progress.iterations_total

stopped = RunContext(RunLog("another", rank, folder / f"rank-{rank}" / "log"))
stopped.boundaries.stop_at(2)
try:
    measure(stopped, worlds.offer(0), limits=LIMITS)
except RunStopped:
    found["stopped"] = stopped.iteration

write_found()
