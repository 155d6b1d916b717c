"""Store the conclusion of each run that has ended."""

from __future__ import annotations

import json

from workbench.core.run.conclusion import Conclusion, conclusion_json
from workbench.store.database import Database
from workbench.store.rows import built, readable


class Conclusions(Database):
    """The part of the store that holds conclusions."""

    def conclusion(self, run: str) -> Conclusion | None:
        """Return the conclusion of ``run``; None if it has none yet."""
        row = self._one("SELECT document FROM conclusions WHERE run = ?", (run,))
        what = f"the conclusion of run {run!r}"
        return next(readable(self.path, what, [row] if row else [], _conclusion), None)

    def keep_conclusion(self, run: str, conclusion: Conclusion) -> Conclusion:
        """Store a conclusion unless there is one already; return the stored one."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO conclusions SELECT id, ? FROM runs WHERE id = ?",
                (conclusion_json(conclusion), run),
            )
        return self.conclusion(run) or conclusion


def _conclusion(row: tuple[str]) -> Conclusion:
    return built(Conclusion, json.loads(row[0]))
