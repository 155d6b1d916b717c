"""Watch one supervisor, and start it again: ``python -I -S watchdog.py FOLDER CLUSTER``.

It imports nothing large, looks every other second, and starts another program to check and act.
It ends when the heartbeat's file is deleted: with its cluster, or with the whole folder.
"""

import fcntl
import json
import os
import sys
import time

LOCK = "watchdog.lock"
LOOK_SECONDS = 2.0
MOST_SECONDS = 60.0
ROUSE_SECONDS = 60.0
MOST_FAILURES = 20


def main() -> None:
    """Detach from the caller and watch, unless another watchdog does."""
    folder, cluster = sys.argv[1:3]
    if os.fork():
        os._exit(0)
    os.setsid()
    try:
        with open(os.path.join(folder, LOCK), "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock.truncate(0)
            lock.write(str(os.getpid()).encode())  # for the supervisor of a deleted cluster
            lock.flush()
            watch(folder, cluster, lock.fileno())
    except OSError:
        return  # another watchdog runs, or there is nothing to watch


def watch(folder: str, cluster: str, lock: int) -> None:
    """Check the supervisor periodically until its heartbeat's file, or the folder, is deleted."""
    wait, failures, due = LOOK_SECONDS, 0, 0.0
    while failures < MOST_FAILURES:
        time.sleep(LOOK_SECONDS)
        try:
            with open(os.path.join(folder, "heartbeat.json"), encoding="utf-8") as file:
                beat = json.load(file)
            if not os.path.samestat(os.fstat(lock), os.stat(os.path.join(folder, LOCK))):
                return  # it is another folder
            is_well = is_held(folder) and time.monotonic() - beat["beat"] <= beat["patience"]
        except OSError:
            return
        except (ValueError, KeyError, TypeError):
            is_well = is_held(folder)
        if is_well:
            wait, failures, due = LOOK_SECONDS, 0, 0.0
        elif time.monotonic() >= due:
            failures += not rouse(cluster)
            wait = min(2 * wait, MOST_SECONDS)
            due = time.monotonic() + wait


def is_held(folder: str) -> bool:
    """Return whether a supervisor holds its lock."""
    with open(os.path.join(folder, "supervisor.lock"), "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def rouse(cluster: str) -> bool:
    """Run the program that checks the supervisor and starts it; return whether it could."""
    command = [sys.executable, "-m", "workbench.supervisor.wake", cluster]
    child = os.posix_spawn(sys.executable, command, os.environ)
    deadline = time.monotonic() + ROUSE_SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.2)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return False


if __name__ == "__main__":
    main()
