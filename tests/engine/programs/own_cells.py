"""Execute another cell on each rank, and leave without waiting for anything.

``… ENDPOINT KEY RUN SOURCES``: the run, and a JSON list of each rank's source.
"""

from __future__ import annotations

import json

from tests.engine.programs.joined import arguments, rank, run

run(arguments[0], json.loads(arguments[1])[rank.number])
