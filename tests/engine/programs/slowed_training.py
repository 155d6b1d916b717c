"""Train while rank 1 computes for longer, while data comes late, or neither.

``… rank|data|nothing``.
"""

from __future__ import annotations

from typing import Any

from tests.engine.programs.timed_training import train
from tests.engine.programs.world import arguments, folder, found, rank, worlds, write_found

# Ranks that differ by 5 % are not alike, and other programs delay each sleep by up to 5 ms.
SLOW: dict[str, dict[str, Any]] = {
    "rank": {"compute": 0.02 + 0.03 * (rank == 1)},
    "data": {"data": 0.25, "steps": 15},
    "nothing": {"compute": 0.25, "steps": 15},
}
found.update(train(worlds.offer(0), folder, **SLOW[arguments[0]]))

write_found()
