"""Execute a cell, recover when the test says so, and execute those after it.

``… ENDPOINT KEY CELLS``: a JSON list of each cell's run and source.
"""

from __future__ import annotations

import json

from tests.engine.programs.joined import arguments, found, rank, run, stay, wait_for_word

first, *others = json.loads(arguments[0])
run(*first)
wait_for_word()
found["recovered"] = rank.recover()
for cell in others:
    run(*cell)

stay()
