"""Store the measurements of a cluster, and predictions, to compare them with results."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Collection

from workbench.core.performance.bandwidth import (
    BandwidthSurvey,
    Measurement,
    as_json,
    measurement_of,
    of_json,
)
from workbench.core.performance.prediction import Forecasts
from workbench.errors import DataRefused, MachineError
from workbench.store.database import Database
from workbench.store.rows import columns_of, insert, readable

# Begins the names of settings.
_NETWORK = "network of "


class Surveys:
    """Measurements of clusters, and predictions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_run(self, run: str) -> Measurement | None:
        """Return the measurement of ``run``; None if it has none."""
        row = self._database.one("SELECT document FROM surveys WHERE run = ?", (run,))
        found = readable(
            self._database.path, f"the measurement {run!r}", [row] if row else [], _read_measurement
        )
        return next(found, None)

    def last(self, cluster: str) -> tuple[str, float] | None:
        """Return the last run that measured ``cluster``, and when in epoch seconds, if any did."""
        return self._database.one(
            "SELECT run, time FROM surveys WHERE cluster = ? ORDER BY time DESC LIMIT 1", (cluster,)
        )

    def of_cluster(self, cluster: str, *, limit: int = 20) -> list[Measurement]:
        """Return the measurements of ``cluster``, the newest first."""
        rows = self._database.all(
            "SELECT document FROM surveys WHERE cluster = ? ORDER BY time DESC LIMIT ?",
            (cluster, limit),
        )
        return [
            *readable(self._database.path, f"a measurement of {cluster!r}", rows, _read_measurement)
        ]

    def keep_network(self, cluster: str, survey: BandwidthSurvey) -> None:
        """Store what was measured between the nodes of ``cluster`` before any run."""
        row = {"name": f"{_NETWORK}{cluster}", "value": as_json(survey)}
        with self._database.transaction() as connection:
            insert(connection, "settings", row, "REPLACE")

    def network(self, cluster: str, hosts: Collection[str] = ()) -> BandwidthSurvey | None:
        """Return what was measured between the nodes of ``cluster`` before any run.

        Args:
            hosts: Host names that must be among them.
        """
        row = self._database.one(
            "SELECT value FROM settings WHERE name = ?", (f"{_NETWORK}{cluster}",)
        )
        with contextlib.suppress(MachineError):
            found = of_json(row[0]) if row else None
            return found if found and {*hosts} <= {*found.nodes} else None
        return None

    def keep_forecasts(self, cluster: str, forecasts: Forecasts) -> None:
        """Store predictions for ``cluster`` unless the same ones are stored already."""
        if not forecasts.found:
            return
        columns = {"cluster": cluster, **columns_of(forecasts)}
        same = [columns[name] for name in ("cluster", "source", "predictor", "found")]
        # Read first: a process that has nothing new to write does not take the write lock.
        known = "cluster = ? AND source = ? AND predictor = ? AND found = ?"
        if self._database.one(f"SELECT 1 FROM forecasts WHERE {known}", same):
            return
        with self._database.transaction() as connection:
            insert(connection, "forecasts", columns)

    def forecasts(self, cluster: str, before: float) -> list[Forecasts]:
        """Return the predictions for ``cluster`` that were made by a time, the newest first.

        Args:
            before: Epoch seconds.
        """
        return self._database.values(
            Forecasts,
            f"a prediction for {cluster!r}",
            "SELECT * FROM forecasts WHERE cluster = ? AND time < ? "
            "ORDER BY time DESC, number DESC LIMIT 50",
            (cluster, before),
        )


def _read_measurement(row: tuple[str]) -> Measurement:
    return measurement_of(row[0])


def put_survey(connection: sqlite3.Connection, run: int, document: str) -> None:
    """Write the measurement of the run with that number, inside of a transaction.

    Raises:
        DataRefused: The document is not a measurement.
    """
    try:
        time = measurement_of(document).survey.time
    except MachineError as error:
        raise DataRefused(
            f"The measurement that came is invalid: {error}", "measure again."
        ) from error
    connection.execute(
        "INSERT OR REPLACE INTO surveys SELECT id, cluster, ?, ? FROM runs WHERE number = ?",
        (time, document, run),
    )


def forget_network(connection: sqlite3.Connection, cluster: str) -> None:
    """Delete what was measured between the nodes of a cluster, inside of a transaction."""
    connection.execute("DELETE FROM settings WHERE name = ?", (f"{_NETWORK}{cluster}",))
