"""Store predictions, to compare them with results."""

from __future__ import annotations

from workbench.core.performance.prediction import Forecasts, Predictor, forecasts_json, forecasts_of
from workbench.store.database import Database
from workbench.store.rows import readable


class ForecastsKept(Database):
    """The part of the store that holds predictions."""

    def keep_forecasts(self, cluster: str, forecasts: Forecasts) -> None:
        """Store predictions for ``cluster`` unless the same ones are stored already."""
        if not forecasts.found:
            return
        same = (cluster, forecasts.source, forecasts.predictor, forecasts_json(forecasts.found))
        # Read first: a process that has nothing new to write does not take the write lock.
        if self._one(
            "SELECT 1 FROM forecasts WHERE cluster = ? AND source = ? AND predictor = ? "
            "AND document = ?",
            same,
        ):
            return
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO forecasts (cluster, source, predictor, document, predicted_at) "
                "VALUES (?, ?, ?, ?, ?)",
                (*same, forecasts.time),
            )

    def forecasts(self, cluster: str, before: float, *, limit: int = 50) -> list[Forecasts]:
        """Return the predictions for ``cluster`` that were made by a time, the newest first.

        Args:
            before: Epoch seconds.
        """
        rows = self._all(
            "SELECT predictor, source, predicted_at, document FROM forecasts "
            "WHERE cluster = ? AND predicted_at < ? "
            "ORDER BY predicted_at DESC, number DESC LIMIT ?",
            (cluster, before, limit),
        )
        return [*readable(self.path, f"a prediction for {cluster!r}", rows, _forecasts)]


def _forecasts(row: tuple[str, str, float, str]) -> Forecasts:
    predictor, source, time, document = row
    return Forecasts(Predictor(predictor), source, float(time), forecasts_of(document))
