"""Hold a communicator's methods against ChainerMN's documentation: ``… collectives|models``."""

from __future__ import annotations

from tests.engine.exchange.programs import collectives, models
from tests.engine.programs.world import arguments, found, worlds, write_found

PARTS = {"collectives": collectives.held, "models": models.held}
found.update(PARTS[arguments[0]](worlds.offer(0)))

write_found()
