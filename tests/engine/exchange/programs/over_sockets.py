"""Hold means over several sockets between hosts against the reference."""

from __future__ import annotations

from tests.engine.exchange.programs.reference import make, wrong_means
from tests.engine.programs.world import found, print_found

found["wrong"] = wrong_means()
found["sockets"] = make("auto").reducer.lanes.count

print_found()
