"""Keep what was foretold, so that it can be held against what came."""

from __future__ import annotations

from workbench.core.forecast import Forecasts, Teller, forecasts_json, forecasts_of
from workbench.store.database import Database


class ForecastsKept(Database):
    """The part of the store that holds forecasts."""

    def keep_forecasts(self, cluster: str, forecasts: Forecasts) -> None:
        """Keep what was foretold for ``cluster``; what was told before in the same words is not."""
        if not forecasts.found:
            return
        same = (cluster, forecasts.source, forecasts.teller, forecasts_json(forecasts.found))
        # Looking first: who only reads what is known already takes no turn at writing.
        if self._one(
            "SELECT 1 FROM forecasts WHERE cluster = ? AND source = ? AND teller = ? "
            "AND document = ?",
            same,
        ):
            return
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO forecasts (cluster, source, teller, document, told) "
                "VALUES (?, ?, ?, ?, ?)",
                (*same, forecasts.told),
            )

    def forecasts(self, cluster: str, before: float, *, limit: int = 50) -> list[Forecasts]:
        """Return what had been foretold for ``cluster`` by a time, the newest first.

        Args:
            before: Epoch seconds.
        """
        rows = self._all(
            "SELECT teller, source, told, document FROM forecasts "
            "WHERE cluster = ? AND told < ? ORDER BY told DESC, number DESC LIMIT ?",
            (cluster, before, limit),
        )
        return [
            Forecasts(Teller(teller), source, told, forecasts_of(document))
            for teller, source, told, document in rows
        ]
