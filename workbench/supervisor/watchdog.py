"""Watch one supervisor, and start it again: ``python -I -S watchdog.py FOLDER CLUSTER``.

It loads nothing that costs memory, looks every other second, and only has ``rouse`` judge and act.
It ends when the heartbeat's file is gone: with its cluster, or with the whole folder.
"""

import fcntl
import json
import os
import sys
import time

LOOK_SECONDS = 2.0
MOST_SECONDS = 60.0
ROUSE_SECONDS = 60.0
MOST_FAILURES = 20


def main() -> None:
    """Go on in a process of its own, unless there is one already."""
    folder, cluster = sys.argv[1:3]
    if os.fork():
        os._exit(0)
    os.setsid()
    try:
        with open(os.path.join(folder, "watchdog.lock"), "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            watch(folder, cluster)
    except OSError:
        return  # another one watches, or there is nothing to be watched


def watch(folder: str, cluster: str) -> None:
    """Look until there is nothing to be watched any longer."""
    wait, failures = LOOK_SECONDS, 0
    while failures < MOST_FAILURES:
        time.sleep(wait)
        try:
            with open(os.path.join(folder, "heartbeat.json"), encoding="utf-8") as file:
                beat = json.load(file)
            is_well = is_held(folder) and time.monotonic() - beat["beat"] <= beat["patience"]
        except OSError:
            return
        except (ValueError, KeyError, TypeError):
            is_well = is_held(folder)
        if is_well:
            wait, failures = LOOK_SECONDS, 0
            continue
        failures += not rouse(cluster)
        wait = min(2 * wait, MOST_SECONDS)


def is_held(folder: str) -> bool:
    """Whether a supervisor holds its lock."""
    with open(os.path.join(folder, "supervisor.lock"), "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def rouse(cluster: str) -> bool:
    """Have a program with all there is judge and act; false where it could not."""
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
