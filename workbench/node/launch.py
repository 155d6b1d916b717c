"""Start a detached process on this node, as described on standard input.

Run as ``python -m workbench.node.launch``; writes process id and folder as one line of JSON. This
process waits for the command: when the command ends, or on SIGTERM, it ends everything below it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from workbench.core.node.launch_protocol import (
    OUTPUT,
    PID,
    Launch,
    Launched,
    launched_text,
    read_launch,
)
from workbench.core.world.world import is_foreign

END_SECONDS = 2.0
LOOK_SECONDS = 0.05
_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>


def keep(launch: Launch, home: Path, report: Callable[[Launched], None]) -> None:
    """Write the files, start the command, and return when all its processes have ended."""
    os.umask(0o077)
    here = launch.at(str(home))
    folder = Path(here.folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in here.files:
        _write(folder / name, text)
    adopt_orphans()
    ending: list[float] = []
    signal.signal(signal.SIGTERM, lambda *_: ending.append(time.monotonic()))
    own = {name: value for name, value in os.environ.items() if not is_foreign(name)}
    with (folder / OUTPUT).open("ab") as output:
        process = subprocess.Popen(
            here.command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**own, **dict(here.environment)},
            cwd=home,
            start_new_session=True,
        )
    _write(folder / PID, str(os.getpid()))
    report(Launched(os.getpid(), str(folder)))
    _wait(process, ending)
    end_children()


def adopt_orphans() -> None:
    """Have orphans below this process become its children."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _wait(process: subprocess.Popen[bytes], ending: list[float]) -> None:
    """Return when the command has ended; after a grace period it is killed."""
    is_terminated = False
    while process.poll() is None:
        if ending and not is_terminated:
            is_terminated = True
            process.terminate()
        if ending and time.monotonic() - ending[0] > END_SECONDS:
            process.kill()
        time.sleep(LOOK_SECONDS)


def end_children() -> None:
    """Kill what runs below this process, also what is started meanwhile."""
    while children := psutil.Process().children(recursive=True):
        for child in children:
            with contextlib.suppress(psutil.Error):
                child.kill()
        psutil.wait_procs(children, LOOK_SECONDS)


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def _detach() -> int:
    """Continue in a detached child; return the file descriptor for its answer."""
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as answer:
            text = answer.read()
        refused = text.startswith("!")
        (sys.stderr if refused else sys.stdout).write(text.removeprefix("!"))
        sys.stdout.flush()
        os._exit(int(refused or not text))
    os.close(reading)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    return writing


def main() -> int:
    """Start the command that standard input describes; an error is one line on stderr."""
    launch = read_launch(sys.stdin.read())
    answer = os.fdopen(_detach(), "w", encoding="utf-8")

    def report(launched: Launched) -> None:
        with answer:
            answer.write(launched_text(launched))

    try:
        keep(launch, Path.home(), report)
    except OSError as error:
        if not answer.closed:
            with answer:
                answer.write(f"!{error.filename or launch.command[0]}: {error.strerror}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
