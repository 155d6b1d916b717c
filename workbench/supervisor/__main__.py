"""Become the supervisor of one cluster, detached from whoever asked: ``python -m … CLUSTER``."""

import os
import sys


def main() -> None:
    """Fork; the child takes the lock and supervises until its cluster is gone."""
    # The parent returns at once, so that the supervisor is nobody's child and nobody's zombie.
    if "--foreground" not in sys.argv and os.fork():
        os._exit(0)

    from workbench.supervisor.process import supervise

    supervise(sys.argv[1])


if __name__ == "__main__":
    main()
