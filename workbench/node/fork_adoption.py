"""Make a forked process what mpiexec would have started: files, environment, limits, signals."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.core.node.forking import STUB_VARIABLE, RankRequest
from workbench.core.world.world import THREADS


def adopt(
    request: RankRequest, added: Mapping[str, str], stub: int, files: Sequence[int], kept: int
) -> int:
    """Become the process that was asked for.

    Args:
        added: The variables that imports have set.
        stub: The process id of the stub.
        files: The stub's open files, in the order of ``request.descriptors``.
        kept: A descriptor that is to stay open.

    Returns:
        The number that ``kept`` has now.

    Raises:
        OSError: The kernel refused something.
        ValueError: The environment is too large.
    """
    kept = _take_files(request.descriptors, files, kept)
    _take_place(request)
    _take_signals(request)
    _limit_threads(request.environment)
    environment = {**added, **request.environment, STUB_VARIABLE: f"{stub} {request.parent}"}
    os.environ.clear()
    os.environ.update(environment)
    _show(request.arguments, environment)
    time.tzset()
    _draw_new_randomness()
    return kept


def _take_files(numbers: Sequence[int], files: Sequence[int], kept: int) -> int:
    """Give each file its number, also where one of the others has that now."""
    above = max([*numbers, 2]) + 1
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, above) for file in [*files, kept]]
    for file in [*files, kept]:
        os.close(file)
    *moved, kept = moved
    for number, file in zip(numbers, moved, strict=True):
        os.dup2(file, number, inheritable=True)
        os.close(file)
    return kept


def _take_place(request: RankRequest) -> None:
    os.setpgid(0, 0)
    os.chdir(request.folder)
    os.umask(request.umask)
    if os.getpriority(os.PRIO_PROCESS, 0) != request.surroundings.nice:
        os.setpriority(os.PRIO_PROCESS, 0, request.surroundings.nice)
    for number, limits in enumerate(request.limits):
        if resource.getrlimit(number) != limits:
            resource.setrlimit(number, limits)
    os.sched_setaffinity(0, request.cores)
    score = Path("/proc/self/oom_score_adj")
    if int(score.read_text()) != request.oom_score:
        score.write_text(str(request.oom_score))
    sys.argv = [*request.arguments]
    sys.orig_argv = [*request.arguments]
    sys.path[0] = request.folder


def _take_signals(request: RankRequest) -> None:
    """Set what Python would have at its start."""
    plain: dict[int, Any] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGPIPE: signal.SIG_IGN,
        signal.SIGXFSZ: signal.SIG_IGN,
    }
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        wanted = signal.SIG_IGN if number in request.ignored else plain.get(number, signal.SIG_DFL)
        with contextlib.suppress(OSError):  # of the C library's own
            signal.signal(number, wanted)
    signal.pthread_sigmask(signal.SIG_SETMASK, request.blocked)


def _show(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Write command line and environment where ``/proc`` shows them: others find ranks by these.

    The memory is that of this process's start; the C library has copies of what it still uses.

    Raises:
        ValueError: The environment is larger than that memory.
    """
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    arguments_at, arguments_end, environment_at, environment_end = map(int, fields[45:49])
    shown = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environment.items())
    room = environment_end - environment_at
    if len(shown) >= room:
        raise ValueError(f"its environment of {len(shown)} bytes is too large")
    line = b"".join(os.fsencode(word) + b"\0" for word in arguments)
    space = arguments_end - arguments_at
    ctypes.memmove(arguments_at, line[: space - 1].ljust(space, b"\0"), space)
    ctypes.memmove(environment_at, shown.ljust(room, b"\0"), room)


def _draw_new_randomness() -> None:
    """Seed NumPy's global generator: forked ranks would all draw the same numbers."""
    if (numpy := sys.modules.get("numpy")) and "numpy.random" in sys.modules:
        numpy.random.seed()


def _limit_threads(environment: Mapping[str, str]) -> None:
    """Set the number of BLAS threads, which libraries read when they are loaded."""
    wanted = {environment.get(name) for name in THREADS} - {None, ""}
    if wanted == {"1"}:
        return
    import threadpoolctl

    threads = int(wanted.pop() or 1) if len(wanted) == 1 else len(os.sched_getaffinity(0))
    threadpoolctl.threadpool_limits(threads)
