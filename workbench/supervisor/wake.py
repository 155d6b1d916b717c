"""Start supervisors again that are needed: of ``python -m … CLUSTER`` one, without it all.

All are looked after until none has had work for a while, so that who has started this program gives
the machine back.
"""

from __future__ import annotations

import contextlib
import sys
import time

from workbench.core.cluster.model import ClusterWish
from workbench.errors import StoreTaken, WorkbenchError
from workbench.requests.cluster import is_released
from workbench.requests.supervisor import (
    HEARTBEAT_NAME,
    has_work,
    keep_awake,
    rouse,
    supervisor_is_awake,
    wake_supervisor,
)
from workbench.store import Store
from workbench.store.paths import cluster_directory

LOOK_SECONDS = 1.0
QUIET_SECONDS = 600.0


def wake(cluster: str) -> int:
    """Start the supervisor again, or end the watchdog if the cluster needs none."""
    try:
        with Store() as store:
            needed = has_work(store, cluster)
        if not needed and not supervisor_is_awake(cluster):
            with contextlib.suppress(OSError):
                (cluster_directory(cluster) / HEARTBEAT_NAME).unlink()
            return 0
        done = rouse(cluster)
        if not supervisor_is_awake(cluster):
            done = f"{done} The supervisor is started again."
            wake_supervisor(cluster)
    except WorkbenchError as error:
        _say(str(error))
        return 1
    _say(done.strip())
    return 0


def keep_all_awake() -> int:
    """Look every second, and start the supervisors that are needed."""
    worked = time.monotonic()
    while time.monotonic() - worked < QUIET_SECONDS:
        try:
            with Store() as store:
                for wish in store.clusters():
                    keep_awake(store, wish.name)
                    if _has_nodes(store, wish):
                        worked = time.monotonic()
        except StoreTaken:
            raise
        except WorkbenchError as error:
            print(error, file=sys.stderr)
        time.sleep(LOOK_SECONDS)
    return 0


def _has_nodes(store: Store, wish: ClusterWish) -> bool:
    """Return whether a cluster works, or may: one that has given its nodes back does not."""
    rests = is_released(wish, store.cluster_fact(wish.name))
    has_runs = any(not run.fact.state.ended for run in store.runs(cluster=wish.name))
    return has_work(store, wish.name) and (has_runs or not rests)


def _say(sentence: str) -> None:
    if sentence:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        print(f"{stamp} INFO workbench.watchdog: {sentence}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(wake(sys.argv[1]) if sys.argv[1:] else keep_all_awake())
