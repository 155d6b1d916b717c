"""Train a model that ranks divide between them: ``… by_chainermn|by_hand``."""

from __future__ import annotations

from tests.engine.programs import parts
from tests.engine.programs.world import arguments, folder, found, rank, worlds, write_found

WAYS = {"by_chainermn": parts.by_chainermn, "by_hand": parts.by_hand}
updater = WAYS[arguments[0]](worlds.offer(0))
found.update(parts.train(updater, rank, folder))

write_found()
