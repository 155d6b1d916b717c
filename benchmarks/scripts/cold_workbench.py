"""Say how many seconds it takes from nothing to the first allreduce, with workbench."""

import time

from workbench.core.run.model import RunKind
from workbench.core.run.run_options import RunOptions
from workbench.requests.run import ask_run
from workbench.store import Store

SOURCE = "from mpi4py import MPI\nassert MPI.COMM_WORLD.allreduce(1) == 2"

start = time.perf_counter()
with Store() as store:
    wish = ask_run(
        store, kind=RunKind.CELL, source=SOURCE, options=RunOptions(ranks=2), oversubscribe=True
    )
    while not store.run(wish.id).fact.state.ended:
        time.sleep(0.02)
    seconds = time.perf_counter() - start
    state = store.run(wish.id).fact.state
print(f"seconds {seconds}" if state == "finished" else f"the run is {state}")
