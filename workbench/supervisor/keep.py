"""Keep the supervisors of all clusters awake on this machine: ``python -m …``.

It ends when none has had work for a while, so that who has started it gives the machine back.
"""

from __future__ import annotations

import sys
import time

from workbench.core.cluster.model import ClusterWish
from workbench.errors import StoreTaken, WorkbenchError
from workbench.requests.cluster import is_released
from workbench.requests.supervisor import has_work, keep_awake
from workbench.store import Store

LOOK_SECONDS = 1.0
QUIET_SECONDS = 600.0


def main() -> None:
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


def _has_nodes(store: Store, wish: ClusterWish) -> bool:
    """Return whether a cluster works, or may: one that has given its nodes back does not."""
    rests = is_released(wish, store.cluster_fact(wish.name))
    has_runs = any(not run.fact.state.ended for run in store.runs(cluster=wish.name))
    return has_work(store, wish.name) and (has_runs or not rests)


if __name__ == "__main__":
    main()
