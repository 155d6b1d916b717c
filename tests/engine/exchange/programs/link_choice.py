"""Print which algorithm is chosen between hosts, and what was measured for the choice."""

from __future__ import annotations

from tests.engine.exchange.programs.reference import make
from tests.engine.programs.world import found, print_found

reducer = make("auto").reducer
found["chosen"] = [str(reducer.algorithm(nbytes)) for nbytes in (4, 100_000_000)]
found["measured"] = [repr(reducer.link), repr(reducer.memory)]

print_found()
