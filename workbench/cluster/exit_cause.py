"""Find why a rank ended from the last output of MPI and Python."""

from __future__ import annotations

import re
import signal

from workbench.core.quote import one_line

# A node may write anything there: so numbers are short, and every search is short.
_SIGNALED = re.compile(
    r"process rank (?P<rank>[0-9]{1,7}) .{0,500}?exited on\s{1,20}"
    r"signal (?P<signal>[0-9]{1,3}) \((?P<name>[^)]{1,80})\)",
    re.S,
)
_MPICH_SIGNALED = re.compile(
    r"APPLICATION TERMINATED WITH THE EXIT STRING: (?P<name>.{1,80}?) "
    r"\(signal (?P<signal>[0-9]{1,3})\)"
)
_ABORTED = re.compile(
    r"MPI_A[Bb][Oo][Rr][Tt]\S{0,20} was (?:invoked|called) on rank (?P<rank>[0-9]{1,7})"
)
_MPICH_ABORTED = re.compile(
    r"application called MPI_Abort\(.{0,200}\) - process (?P<rank>[0-9]{1,7})"
)
_OUT_OF_REACH = re.compile(
    r"A daemon failed to report back.{0,2000}?Remote host:\s{1,20}(?P<host>\S{1,255})", re.S
)
# The frames of our own that lead to the user's code.
_OURS = ("workbench/engine/asyncio_support.py", "workbench/engine/execution.py")
_NAMED = re.compile(r"PID ([0-9]{1,7})\b")
# Lines of the engines' own log, which share mpiexec's output and say nothing of its end.
_ENGINE_LOG = re.compile(r"\[\w{0,20}Engine[\w.]{0,20}\]")
UNKNOWN = (
    "its process ended without a Python error, and there is no record of whether it exited or "
    "was killed"
)
MOST_WORDS = 4_000
MOST_FIRST, MOST_LAST = 300, 200
OFTEN = {9: ", often because the machine ran out of memory"}


def cause_of_end(log: str, rank: int | None) -> str:
    """Return the cause of the end of ``rank`` (or the world, if None), from mpiexec's output."""
    for match in _SIGNALED.finditer(log):
        if rank is None or int(match["rank"]) == rank:
            return _signaled(match)
    if (signaled := _MPICH_SIGNALED.search(log)) is not None:
        return _signaled(signaled)
    if (aborted := _ABORTED.search(log) or _MPICH_ABORTED.search(log)) is not None:
        return f"MPI_Abort was called on rank {aborted['rank']}"
    if rank is None and (host := lost_host(log)):
        return f"{host} is out of reach of the other hosts"
    lines = [
        one_line(line)
        for line in log.replace("\0", "").splitlines()
        if line.strip(" -=*") and not _ENGINE_LOG.search(line)
    ]
    if rank is None and lines:
        # mpiexec explains itself first; what a host's shell says comes last.
        first = one_line(" ".join(lines), MOST_FIRST)
        last = lines[-1][:MOST_LAST]
        return f"mpiexec ended; its words: {first if last in first else f'{first} {last}'}"
    return UNKNOWN


def cause_of_status(status: int) -> str:
    """Return the cause of the end of a rank from its wait status; empty after exit status 0.

    Any number has a cause: `os` raises an error for those that no process ends with.
    """
    if 0 < (number := status & 0x7F) < 0x7F:
        name = signal.strsignal(number) if number < signal.NSIG else ""
        return f"ended by signal {number}{f' ({name})' if name else ''}{OFTEN.get(number, '')}"
    code = status >> 8 & 0xFF
    return f"its process ended with exit status {code}" if code else ""


def is_abort(log: str) -> bool:
    """Return whether a rank called ``MPI_Abort``, by mpiexec's output."""
    return bool(_ABORTED.search(log) or _MPICH_ABORTED.search(log))


def _signaled(match: re.Match[str]) -> str:
    often = OFTEN.get(int(match["signal"]), "")
    return f"ended by signal {match['signal']} ({match['name']}){often}"


def lost_host(log: str) -> str:
    """Return the host that is lost according to mpiexec's output, or empty."""
    found = _OUT_OF_REACH.search(log)
    return found["host"] if found else ""


def named_processes(log: str) -> frozenset[int]:
    """Return the ids of the processes that failed by mpiexec's output; it ends the others."""
    return frozenset(int(number) for number in _NAMED.findall(log))


def last_words(*texts: str) -> str:
    """Return the end of a rank's last output; the part that was read before is zeros."""
    found = "\n".join(part for text in texts if (part := text.replace("\0", "").strip()))
    return found if len(found) <= MOST_WORDS else f"…{found[-MOST_WORDS:]}"


def stack_of_crash(text: str) -> str:
    """Return the Python stack that ``faulthandler`` left, innermost call last, or empty."""
    lines = text.strip().splitlines()
    if not lines:
        return ""
    frames = [line for line in lines if line.lstrip().startswith("File ")]
    user = []
    for frame in frames:
        if any(name in frame for name in _OURS):
            break
        user.append(frame)
    return "\n".join([lines[0], "Stack (most recent call last):", *reversed(user)])
