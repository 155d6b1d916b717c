"""Execute cells one after another, and write to the terminal between two.

``… ENDPOINT KEY CELLS``: a JSON list of each cell's run and source.
"""

from __future__ import annotations

import json
import os

from tests.engine.programs.joined import arguments, run, stay

for number, (name, source) in enumerate(json.loads(arguments[0])):
    if number:
        os.write(1, b"between the runs")
    run(name, source)

stay()
