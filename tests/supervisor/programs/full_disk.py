"""Fill the disk of WORKBENCH_HOME under a run and under `down`, and print what was seen.

``full_disk.py OUTSIDE [rehearse]``: a folder on another disk, and whether nodes are simulated.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from workbench.core.cluster.model import ClusterState
from workbench.core.fleet.model import FleetWish, Needs
from workbench.core.run.model import RunKind
from workbench.core.run.run_options import RunOptions
from workbench.errors import StoreFull
from workbench.requests.cluster import ask_cluster
from workbench.requests.run import ask_run
from workbench.requests.supervisor import supervisor_is_awake
from workbench.store import Store
from workbench.store.disk import RESERVE_NAME, full_disk

NAME = "full"
POINTS = 240
OUTSIDE = Path(sys.argv[1])
BEATS = OUTSIDE / "beats"
CELL = (Path(__file__).parent / "cells" / "beats.py").read_text()
ENVIRONMENT = (("POINTS", str(POINTS)), ("BEATS", str(BEATS)))


def until(look: Callable[[], object], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, "nothing came of it"
        time.sleep(0.05)


def fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return


def main() -> None:
    seen: dict[str, object] = {}
    store = Store()
    home = store.path.parent
    fleet = FleetWish("rehearsal", nodes=2, needs=Needs(types=("cpu.2",)))
    ask_cluster(store, 2, cluster=NAME, oversubscribe=True, fleet=fleet if sys.argv[2:] else None)
    until(lambda: store.cluster_fact(NAME).state is ClusterState.READY)
    pid = store.cluster_fact(NAME).supervisor
    run = ask_run(
        store,
        kind=RunKind.CELL,
        source=CELL,
        cluster=NAME,
        name="fit",
        options=RunOptions(environment=ENVIRONMENT),
    ).id
    until(lambda: len(store.reports.points(run)) > 20)

    fill(home / "ballast")
    until(lambda: full_disk(store.path))
    beats, held = BEATS.stat().st_size, time.monotonic() + 5.0
    until(lambda: time.monotonic() > held)
    seen["beats"] = BEATS.stat().st_size - beats
    seen["notice"] = full_disk(store.path)
    try:
        for number in range(1000):
            store.put_setup(NAME, f"cell {number}", "x" * 4000)
    except StoreFull as error:
        seen["refused"] = str(error)
    seen["same supervisor"] = supervisor_is_awake(NAME) and os.path.exists(f"/proc/{pid}")
    (home / "ballast").unlink()
    store.clear_setups(NAME)
    until(lambda: store.run(run).fact.state.ended)
    seen["state"] = store.run(run).fact.state
    iterations = [[p.iteration for p in store.reports.points(run) if p.rank == n] for n in range(2)]
    seen["points"] = [found == [*range(1, POINTS + 1)] for found in iterations]
    seen["reserve"] = (home / RESERVE_NAME).exists()

    fill(home / "ballast")
    os.kill(pid, signal.SIGKILL)
    store.close()
    down = subprocess.run(
        [sys.executable, "-m", "workbench.cli", "delete", "--cluster", NAME],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    seen["down"] = [down.returncode, down.stdout, down.stderr]
    seen["reserve afterwards"] = (home / RESERVE_NAME).exists()
    print(json.dumps(seen))


main()
