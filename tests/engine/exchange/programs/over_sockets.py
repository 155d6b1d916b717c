"""Hold means over several sockets between hosts against the reference: of ``all`` or few kinds."""

from __future__ import annotations

from tests.engine.exchange.programs.reference import make, wrong_means
from tests.engine.programs.world import arguments, found, print_found

every = arguments == ["all"]
found["wrong"] = wrong_means() if every else wrong_means(("odd", "large"), ("single", "mixed"))
found["sockets"] = make("auto").reducer.sockets

print_found()
