"""Store the measurements of a cluster."""

from __future__ import annotations

import sqlite3

from workbench.core.performance.measurement import Measurement, measurement_of
from workbench.errors import DataRefused, MachineError
from workbench.store.database import Database
from workbench.store.rows import readable


class Surveys(Database):
    """The part of the store that holds measurements."""

    def survey(self, run: str) -> Measurement | None:
        """Return what ``run`` measured; None if it did not, or has not yet."""
        row = self._one("SELECT document FROM surveys WHERE run = ?", (run,))
        found = readable(self.path, f"the measurement {run!r}", [row] if row else [], _measurement)
        return next(found, None)

    def last_survey(self, cluster: str) -> tuple[str, float] | None:
        """Return which run measured ``cluster`` last, and when in epoch seconds, if any did."""
        return self._one(
            "SELECT run, time FROM surveys WHERE cluster = ? ORDER BY time DESC LIMIT 1", (cluster,)
        )

    def surveys(self, cluster: str, *, limit: int = 20) -> list[Measurement]:
        """Return what was measured on ``cluster``, the newest first."""
        rows = self._all(
            "SELECT document FROM surveys WHERE cluster = ? ORDER BY time DESC LIMIT ?",
            (cluster, limit),
        )
        return [*readable(self.path, f"a measurement of {cluster!r}", rows, _measurement)]


def _measurement(row: tuple[str]) -> Measurement:
    return measurement_of(row[0])


def put_survey(connection: sqlite3.Connection, run: int, document: str) -> None:
    """Write what the run of that number measured, inside of a transaction.

    Raises:
        DataRefused: The document is no measurement.
    """
    try:
        time = measurement_of(document).survey.time
    except MachineError as error:
        raise DataRefused(
            f"What came as a measurement is none: {error}", "measure again."
        ) from error
    connection.execute(
        "INSERT OR REPLACE INTO surveys SELECT id, cluster, ?, ? FROM runs WHERE number = ?",
        (time, document, run),
    )
