"""Keep what was measured between the nodes of a cluster."""

from __future__ import annotations

import json
import sqlite3

from workbench.core.measurement import Measurement, measurement_of
from workbench.store.database import Database


class Surveys(Database):
    """The part of the store that holds measurements."""

    def survey(self, run: str) -> Measurement | None:
        """Return what ``run`` measured; None if it did not, or has not yet."""
        row = self._one("SELECT document FROM surveys WHERE run = ?", (run,))
        return measurement_of(row[0]) if row else None

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
        return [measurement_of(document) for (document,) in rows]


def put_survey(connection: sqlite3.Connection, run: int, document: str) -> None:
    """Write what the run of that number measured, inside of a transaction."""
    survey = json.loads(document)["survey"]
    connection.execute(
        "INSERT OR REPLACE INTO surveys SELECT id, cluster, ?, ? FROM runs WHERE number = ?",
        (survey["time"], document, run),
    )
