"""Wait for a rank that is late, seen from another thread."""

from __future__ import annotations

import threading
import time

from tests.engine.programs.world import found, rank, worlds, write_found
from workbench.engine.timing.mpi_calls import watch

comm = worlds.offer(0)
seen: list[tuple[str, float]] = []


def look():
    while not done.is_set():
        seen.append((watch.call, time.perf_counter() - watch.since))
        time.sleep(0.01)


done = threading.Event()
thread = threading.Thread(target=look)
thread.start()
if rank == 0:
    time.sleep(0.4)
comm.Barrier()
done.set()
thread.join()
found["calls"] = sorted({call for call, _ in seen if call})
found["longest"] = max((since for call, since in seen if call), default=0.0)
found["seconds"] = watch.seconds

write_found()
