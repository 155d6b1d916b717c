"""Find the algorithms, shapes and types whose means are not exact."""

from __future__ import annotations

from tests.engine.exchange.programs.reference import wrong_means
from tests.engine.programs.world import found, write_found

found["wrong"] = wrong_means()

write_found()
