"""Report an exchange: its kind with the step times, and what it took as values of the run."""

from __future__ import annotations

from workbench.core.performance.exchange_model import Codec, mark_codec
from workbench.engine.exchange.exchanger import ExchangeTally
from workbench.engine.run_context import current
from workbench.engine.timing.mpi_calls import watch

CALL = "gradient exchange"
REPORT_SECONDS = 0.5


def report_kind(codec: Codec, *, overlaps: bool, delayed: bool) -> None:
    """Have the rank's step times say how gradients are exchanged."""
    mark_codec(watch.details, codec)
    watch.details["overlaps"] = float(overlaps)
    watch.details["delayed"] = float(delayed)


def report_tally(tally: ExchangeTally) -> None:
    """Report the measurements of an exchange, if there is a run."""
    if (run := current()) is None:
        return
    values = [("exchange/bytes", tally.nbytes), ("exchange/seconds", tally.seconds)]
    if tally.coding:
        values.append(("exchange/coding", tally.coding))
    if tally.error:
        values.append(("exchange/error", tally.error))
    run.log.add_all(run.iteration + 1, tuple(values))
