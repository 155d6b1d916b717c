"""Take from a log in one thread while another adds to it: ``taken_log.py FOLDER``."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from workbench.core.run.rank_protocol import Batch, Ending, decode_message
from workbench.engine.reporting.run_log import RunLog

sys.setswitchinterval(1e-5)
log = RunLog("260101-000000-arun", 0, Path(sys.argv[1]) / "rank-0.log")
taken: list[Batch] = []


def take() -> None:
    while not log.closed:
        if line := log.take():
            batch = decode_message(line)
            assert isinstance(batch, Batch)
            taken.append(batch)


thread = threading.Thread(target=take)
thread.start()
for n in range(20_000):
    log.add("loss", n, 0.0)
log.finish(Ending("finished"))
thread.join()
assert [s.iteration for b in taken for s in b.samples] == [*range(20_000)]
assert [b.sequence for b in taken] == [*range(1, len(taken) + 1)]
assert len(taken) > 1
print("whole")
