"""Exchange gradients over sockets, while one rank sends itself a signal in the middle of it.

``… overlap|plain SOCKETS RANK SIGNAL``: none can finish the exchange that RANK leaves or stops in.
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
from workbench.engine.timing.mpi_calls import is_echo

way = arguments[0]
sockets, chosen, signal_number = map(int, arguments[1:])
be_a_node(rank, sockets)
comm = make("ring", overlap=way == "overlap")
found["sockets"] = comm.reducer.sockets


def look_or_signal() -> None:
    """Send the signal, once, when all ranks came to the exchange: the next one waits in it."""
    others = [folder / f"{other} came" for other in range(size) if other != rank]
    if not (folder / "pid").exists() and all(path.exists() for path in others):
        send_signal()
    look()


def mean_when_all_came(*arguments: Any) -> Any:
    """Say that this rank came to the exchange; after the chosen one, begin it after the signal."""
    ring.mean = mean
    (folder / f"{rank} came").touch()
    while rank == (chosen + 1) % size and not (folder / "pid").exists():
        time.sleep(0.01)
    return mean(*arguments)


def send_signal() -> None:
    (folder / "pid").write_text(str(os.getpid()))
    os.kill(os.getpid(), signal_number)


try:
    for step in range(4):
        if step == 2:
            ring = comm.reducer._ring
            mean, ring.mean = ring.mean, mean_when_all_came
            if rank == chosen:
                look, ring._look = ring._look, look_or_signal
        (got,) = means_of(comm, [np.full(4_000_000, rank + 1.0, "f4")])
        found[f"wrong {step}"] = int((got != np.float32((size + 1) / 2)).sum())
except Exception as error:  # noqa: BLE001  # the test looks at what was raised
    found["raised"] = [is_echo(error), type(error).__name__, str(error)]
    found["traceback"] = traceback.format_exc()
    found["at"] = time.time()
    write_found()
    time.sleep(60)  # the test ends it: MPI's end would wait for the rank that is lost

write_found()
