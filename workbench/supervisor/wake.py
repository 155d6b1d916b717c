"""Start a cluster's supervisor again if it is needed: ``python -m … CLUSTER``."""

from __future__ import annotations

import contextlib
import sys
import time

from workbench.errors import WorkbenchError
from workbench.requests.supervisor import (
    HEARTBEAT_NAME,
    has_work,
    rouse,
    supervisor_is_awake,
    wake_supervisor,
)
from workbench.store import Store
from workbench.store.paths import cluster_directory


def main() -> int:
    """Start the supervisor again, or end the watchdog if the cluster needs none."""
    cluster = sys.argv[1]
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


def _say(sentence: str) -> None:
    if sentence:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        print(f"{stamp} INFO workbench.watchdog: {sentence}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
