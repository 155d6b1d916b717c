"""Exchange gradients over sockets, while one rank sends itself a signal in the middle of it.

``… overlap|plain RANK SIGNAL``: none can finish the exchange that RANK leaves or stops in.
"""

from __future__ import annotations

import os
import time
import traceback
from typing import Any

import numpy as np

from tests.engine.exchange.programs.nodes import be_a_node
from tests.engine.exchange.programs.reference import make, means_of
from tests.engine.programs.world import arguments, folder, found, rank, size, write_found
from workbench.engine.mpi_calls import is_echo

be_a_node(rank)
way, chosen, signal_number = arguments[0], int(arguments[1]), int(arguments[2])
comm = make("ring", overlap=way == "overlap")
lanes = comm.reducer.lanes
found["sockets"] = lanes.count
sent, send = 0, lanes.send


def send_until(message: Any) -> Any:
    """Send, and the signal before the twentieth message."""
    global sent  # noqa: PLW0603  # the program is this one function's only user
    sent += 1
    if sent == 20:
        (folder / "pid").write_text(str(os.getpid()))
        os.kill(os.getpid(), signal_number)
    return send(message)


try:
    for step in range(4):
        if step == 2 and rank == chosen:
            lanes.send = send_until
        (got,) = means_of(comm, [np.full(4_000_000, rank + 1.0, "f4")])
        found[f"wrong {step}"] = int((got != np.float32((size + 1) / 2)).sum())
except Exception as error:  # noqa: BLE001  # the test looks at what was raised
    found["raised"] = [is_echo(error), type(error).__name__, str(error)]
    found["inside"] = "exchange/ring.py" in traceback.format_exc()
    found["at"] = time.time()
    write_found()
    time.sleep(60)  # the test ends it: MPI's end would wait for the rank that is lost

write_found()
