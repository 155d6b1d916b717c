"""Hold a cluster's lock: ``still.py LOCK idle|busy workbench.supervisor CLUSTER``."""

import fcntl
import sys
import threading
import time

with open(sys.argv[1], "wb") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    while sys.argv[2] == "busy":
        time.sleep(0.05)
    threading.Event().wait()
