"""One MPI world: monitors its ranks, detects failures, and ends it."""

from __future__ import annotations

import contextlib
import re
import signal
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

import psutil

from workbench.cluster.launcher import GENERATION_VARIABLE
from workbench.cluster.process_monitor import ProcessMonitor
from workbench.core.cluster.generation import Death, WorldFact, WorldState
from workbench.core.messages import MOST_PID
from workbench.core.node.launch_protocol import OUTPUT, Launched
from workbench.core.quote import one_line, quote_value
from workbench.core.world.world import RankFact, World
from workbench.errors import HostLost, MachineError, WorkbenchError


class Mpiexec(Protocol):
    """One mpiexec. No method waits."""

    def is_alive(self) -> bool:
        """Return whether it is running."""
        ...

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        ...

    def log(self) -> str | None:
        """Return its output; None while that is being fetched."""
        ...


@dataclass(frozen=True)
class LocalMpiexec:
    """An mpiexec that ipyparallel's launcher started on this machine."""

    launcher: Any
    monitor: ProcessMonitor

    def is_alive(self) -> bool:
        """Return whether it is running."""
        return self.monitor.is_alive(self.launcher.pid)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended according to the launcher."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.launcher.signal(number)

    def log(self) -> str | None:
        """Return its output."""
        return self.monitor.tail(self.launcher.output_file)


@dataclass(frozen=True)
class NodeMpiexec:
    """An mpiexec that ``workbench.node.launch`` started on the first host of its world."""

    monitor: ProcessMonitor
    launched: Launched

    def is_alive(self) -> bool:
        """Return whether it is running."""
        return self.monitor.is_alive(self.launched.pid)

    def signal(self, number: signal.Signals) -> None:
        """Make its launch process end it, for any signal: that process uses force if necessary."""
        self.monitor.signal((self.launched.pid,), signal.SIGTERM)

    def log(self) -> str | None:
        """Return the end of its output."""
        return self.monitor.tail(f"{self.launched.folder}/{OUTPUT}")


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

KILL_SECONDS = 2.0
LAST_WORDS_SECONDS = 0.7
ANSWER_SECONDS = 3.0


@dataclass(frozen=True)
class WorldHandles:
    """The handles of a world that has started.

    Args:
        monitors: One for each host, in order; a single one if all ranks are on this machine.
        crashes: The folder in which a crash leaves its Python stack, on each host.
        world: The placement of ranks on hosts, where there are several.
        mark: Identifies the world's processes.
    """

    mpiexec: Mpiexec
    monitors: tuple[ProcessMonitor, ...]
    crashes: str
    world: World | None = None
    mark: str = ""

    def monitor_of(self, rank: RankFact) -> ProcessMonitor:
        """Return the monitor of ``rank``'s host."""
        if len(self.monitors) == 1 or self.world is None:
            return self.monitors[0]
        # Not by the host name that it reports: it could name another host, and processes there.
        addresses = [host.address for host in self.world.hosts]
        return self.monitors[addresses.index(self.world.placement[rank.rank])]

    def crash_file(self, rank: RankFact) -> str:
        """Return the path of the file for ``rank``'s stack after a crash."""
        return f"{self.crashes}/crash-{rank.generation}-{rank.rank}.txt"

    def words_files(self, rank: RankFact) -> tuple[str, ...]:
        """Return the paths of ``rank``'s output that was not read yet."""
        path = f"{self.crashes}/words-{rank.generation}-{rank.rank}"
        return f"{path}.stdout", f"{path}.stderr"


@dataclass
class MpiWorld:
    """The state of one world in this process.

    Args:
        footing: Fails with a ``WorkbenchError`` if the world could not be started.
        parents: The daemons that started its engines on other hosts.
        launched: The processes that mpiexec started for its engines, by which it names them.
        is_lost: Whether one of its hosts was out of reach.
        began: When it was started or taken up, by the monotonic clock.
    """

    generation: int
    size: int
    footing: Future[WorldHandles]
    engines: set[int] = field(default_factory=set)
    parents: dict[int, int] = field(default_factory=dict)
    launched: dict[int, int] = field(default_factory=dict)
    closing: Any = None
    joining: Any = None
    recovering: Any = None
    ranks: tuple[RankFact, ...] = ()
    deaths: tuple[Death, ...] = ()
    reason: str = ""
    is_lost: bool = False
    began: float = field(default_factory=time.monotonic)
    _joined_here: bool = False
    _watched: bool = False
    _ending_since: float = 0.0
    _is_signaled: bool = False
    _dying_since: float = 0.0
    _is_abandoned: bool = False

    @property
    def is_ending(self) -> bool:
        """Whether its end was requested."""
        return bool(self._ending_since)

    @property
    def started(self) -> WorldHandles | None:
        """Its handles; None while it is being started, and if that failed."""
        if not self.footing.done() or self.footing.exception() is not None:
            return None
        return self.footing.result()

    def look(self) -> WorldState | None:
        """Return its state if it is starting, broken or ending; None while it is well."""
        if not self.footing.done():
            return WorldState.BROKEN if self.is_ending else WorldState.STARTING
        failure = self.footing.exception()
        if failure is not None:
            self.reason = self.reason or _sentence(failure)
            self.is_lost = isinstance(failure, HostLost)
            return WorldState.ENDED
        footing = self.footing.result()
        if not self._watched:
            self._watch(footing)
        gone = not footing.mpiexec.is_alive()
        # What broke a world is the likeliest on a host that does not answer; and one that ends
        # waits for none.
        self._is_abandoned |= self.is_ending or gone or self._has_dead(footing)
        gone |= bool(self._why_lost(footing.monitors[0]))
        if self.is_ending:
            ended = self._press(footing, gone) and self._end_rest(footing)
            return WorldState.ENDED if ended else WorldState.BROKEN
        self._find_lost(footing)
        if self._find_deaths(footing, gone) or not (gone or self.deaths or self.reason):
            return None
        if not self.reason:
            log = footing.mpiexec.log()
            if log is None and not self._is_late():
                return None
            self.reason = cause_of_end(log or "", None)
        if not gone or self._any_alive(footing):
            if gone:
                self._signal(footing, signal.SIGKILL)
            return WorldState.BROKEN
        return WorldState.ENDED if self._end_rest(footing) else WorldState.BROKEN

    def fact(self, state: WorldState) -> WorldFact:
        """Return its fact."""
        return WorldFact(
            self.generation, self.size, state, self.ranks, self.deaths, self.reason, self.is_lost
        )

    def check_ranks(self, engines: Sequence[int], ranks: Sequence[RankFact]) -> Sequence[RankFact]:
        """Return its engines' descriptions of themselves, checked, in the order of ``engines``.

        Raises:
            MachineError: They do not form this world.
        """
        are_here = [rank.rank for rank in sorted(ranks, key=lambda rank: rank.rank)]
        same = all(rank.generation == self.generation for rank in ranks)
        if are_here != [*range(self.size)] or [rank.engine for rank in ranks] != [*engines]:
            raise MachineError(f"the {self.size} ranks report to be ranks {quote_value(are_here)}")
        if not same:
            raise MachineError(f"one of the ranks is not of generation {self.generation}")
        if strange := [rank.pid for rank in ranks if not self._is_process(rank)]:
            raise MachineError(f"{quote_value(strange[0])} is not a process of the world")
        return ranks

    def _is_process(self, rank: RankFact) -> bool:
        if self.started is None or not 1 < rank.pid <= MOST_PID:
            return False
        mark, parent = f"{GENERATION_VARIABLE}={self.generation}", self.parents.get(rank.engine, 0)
        launched = self.launched.get(rank.engine, rank.pid)
        return self.started.monitor_of(rank).confirms(rank.pid, launched, parent, mark)

    def adopt(self, ranks: Sequence[RankFact], *, joined: bool = False) -> None:
        """Set its ranks.

        Args:
            joined: Whether they have just joined: ranks on record may have ended, and their
                process ids may have been reused.
        """
        self._joined_here = joined
        self.ranks = tuple(sorted(ranks, key=lambda rank: rank.rank))
        self._watched = False

    def end(self) -> None:
        """Begin to end it; ``look`` then uses force if necessary."""
        if self.is_ending:
            return
        self._ending_since = time.monotonic()
        if (footing := self.started) is not None:
            self._ask_to_end(footing)

    def give_up(self, reason: str) -> WorldState:
        """End it although it cannot be looked at, and return its state."""
        footing = self.started
        if not self.is_ending:
            self.reason = self.reason or reason
            with contextlib.suppress(Exception):  # what its end needs may fail as well
                self.end()
        if footing is None or time.monotonic() - self._ending_since <= KILL_SECONDS:
            return WorldState.BROKEN
        with contextlib.suppress(Exception):
            footing.mpiexec.signal(signal.SIGKILL)
        return WorldState.ENDED

    def remove_crashes(self) -> None:
        """Remove the files of possible crashes."""
        footing = self.started
        if footing is not None:
            for rank in self.ranks:
                for path in (footing.crash_file(rank), *footing.words_files(rank)):
                    footing.monitor_of(rank).remove(path)

    def _watch(self, footing: WorldHandles) -> None:
        self._watched = True
        for rank in self.ranks:
            footing.monitor_of(rank).watch(self._processes(rank))

    def _processes(self, rank: RankFact) -> list[int]:
        parent = self.parents.get(rank.engine)
        return [rank.pid, parent] if parent else [rank.pid]

    # -- its end

    def _ask_to_end(self, footing: WorldHandles) -> None:
        self._is_signaled = True
        # Ranks that hang in MPI do not react to mpiexec's SIGTERM. Those that a loss has left there
        # have nothing to save, and would take the cores on which the next world starts.
        is_lost = self.is_lost or bool(self.deaths)
        self._signal(footing, signal.SIGKILL if is_lost else signal.SIGTERM)
        footing.mpiexec.signal(signal.SIGTERM)

    def _press(self, footing: WorldHandles, gone: bool) -> bool:
        """End by force what does not end by itself; true once nothing is left."""
        if not self._is_signaled:  # it was still being started
            self._ending_since = time.monotonic()
            self._ask_to_end(footing)
        alive = self._any_alive(footing)
        if time.monotonic() - self._ending_since > KILL_SECONDS:
            self._signal(footing, signal.SIGKILL)
            if not gone:
                footing.mpiexec.signal(signal.SIGKILL)
            else:
                self._signal_daemons(footing)
        return gone and not alive

    def _signal(self, footing: WorldHandles, number: signal.Signals) -> None:
        for rank in self.ranks:
            footing.monitor_of(rank).signal([rank.pid], number)

    def _end_rest(self, footing: WorldHandles) -> bool:
        """End the processes that the ranks started and left; true once none is left."""
        groups: dict[ProcessMonitor, list[int]] = {monitor: [] for monitor in footing.monitors}
        for rank in self.ranks if self._joined_here else ():
            groups[footing.monitor_of(rank)].append(rank.pid)
        done = [monitor.end_rest(footing.mark, pids) for monitor, pids in groups.items()]
        return all(done)

    def _signal_daemons(self, footing: WorldHandles) -> None:
        """End daemons that outlive their mpiexec."""
        for rank in self.ranks:
            monitor, parent = footing.monitor_of(rank), self.parents.get(rank.engine)
            if parent and self._is_alive(monitor, parent):
                monitor.signal([parent], signal.SIGKILL)

    def _any_alive(self, footing: WorldHandles) -> bool:
        return any(
            self._is_alive(footing.monitor_of(rank), pid)
            for rank in self.ranks
            for pid in self._processes(rank)
        )

    def _is_alive(self, monitor: ProcessMonitor, pid: int) -> bool:
        return monitor.is_alive(pid) and not self._why_lost(monitor)

    def _has_dead(self, footing: WorldHandles) -> bool:
        return any(not footing.monitor_of(rank).is_alive(rank.pid) for rank in self.ranks)

    def _why_lost(self, monitor: ProcessMonitor) -> str:
        """Return why a host is lost to this world, in one sentence; empty while it is not."""
        is_left = self._is_abandoned and monitor.is_away
        return monitor.lost or (f"{monitor.host} is out of reach" if is_left else "")

    # -- its deaths

    def _find_lost(self, footing: WorldHandles) -> None:
        lost = [why for monitor in footing.monitors if (why := self._why_lost(monitor))]
        if not lost:
            return
        self.reason, self.is_lost = self.reason or lost[0], True
        known = {death.rank for death in self.deaths}
        for rank in self.ranks:
            why = self._why_lost(footing.monitor_of(rank))
            if why and rank.rank not in known:
                self.deaths += (Death(rank.rank, rank.host, why),)

    def _find_deaths(self, footing: WorldHandles, gone: bool) -> bool:
        """Record the ranks that ended; true if the cause of some is still unknown."""
        known = {death.rank for death in self.deaths}
        new = [
            rank
            for rank in self.ranks
            if rank.rank not in known and not footing.monitor_of(rank).is_alive(rank.pid)
        ]
        if not new or self._may_say_more(new, gone):
            return bool(new)
        if any(self._is_unreported(rank, footing) for rank in new) and not self._is_late():
            return True
        text = footing.mpiexec.log()
        left = {rank.rank: _read_traces(footing, rank) for rank in new}
        if (text is None or any(None in of for of in left.values())) and not self._is_late():
            return True
        said = {n: [part or "" for part in of] for n, of in left.items()}
        self._note_deaths(new, text or "", said, footing)
        return False

    def _is_unreported(self, rank: RankFact, footing: WorldHandles) -> bool:
        """Return whether the fork server has yet to report how a rank ended."""
        is_forked = self.launched.get(rank.engine, rank.pid) != rank.pid
        return is_forked and rank.pid not in footing.monitor_of(rank).statuses

    def _note_deaths(
        self,
        new: list[RankFact],
        text: str,
        left: dict[int, list[str]],
        footing: WorldHandles,
    ) -> None:
        traces = {number: stack_of_crash(of[0]) for number, of in left.items()}
        blamed, out_of_reach = named_processes(text), lost_host(text)
        # The order of the ends is that of one host, and one of mpiexec's own if it aborts.
        ends = (
            [] if is_abort(text) or len(footing.monitors) > 1 else [*footing.monitors[0].statuses]
        )
        # mpiexec ends the others after one failure: the first one has the cause.
        new.sort(
            key=lambda rank: (
                rank.host != out_of_reach,
                not traces[rank.rank],
                ends.index(rank.pid) if rank.pid in ends else len(ends),
                self.launched.get(rank.engine, rank.pid) not in blamed,
            )
        )
        for rank in new:
            trace, words = traces[rank.rank], last_words(*left[rank.rank][1:])
            cause = trace.partition("\n")[0] or cause_of_end(f"{text}\n{words}", rank.rank)
            status = footing.monitor_of(rank).statuses.get(rank.pid)
            if cause == UNKNOWN and status is not None:
                cause = cause_of_status(status) or cause
            if rank.host == out_of_reach:
                cause = f"{rank.host} is out of reach of the other hosts"
            self.deaths += (
                Death(
                    rank.rank, rank.host, cause, trace, words,
                    is_abort=is_abort(text), is_plain=cause == UNKNOWN,
                ),
            )  # fmt: skip

    def _may_say_more(self, dead: Sequence[RankFact], gone: bool) -> bool:
        """Return whether several ranks ended at once and mpiexec may still report the first."""
        self._dying_since = self._dying_since or time.monotonic()
        early = time.monotonic() - self._dying_since < LAST_WORDS_SECONDS
        return len(dead) > 1 and early and not gone

    def _is_late(self) -> bool:
        """Return whether the wait for answers of other hosts has timed out."""
        self._dying_since = self._dying_since or time.monotonic()
        return time.monotonic() - self._dying_since > ANSWER_SECONDS


def _read_traces(footing: WorldHandles, rank: RankFact) -> list[str | None]:
    """Return the stack of a crash, and the rank's last output to each stream."""
    monitor = footing.monitor_of(rank)
    return [monitor.tail(path) for path in (footing.crash_file(rank), *footing.words_files(rank))]


def _sentence(error: BaseException) -> str:
    return str(error).rstrip(".") if isinstance(error, WorkbenchError) else repr(error)


def cause_of_end(log: str, rank: int | None) -> str:
    """Return the cause of the end of ``rank`` (or the world, if None), from mpiexec's output."""
    for match in _SIGNALED.finditer(log):
        if rank is None or int(match["rank"]) == rank:
            return _describe_signal(match)
    if (signaled := _MPICH_SIGNALED.search(log)) is not None:
        return _describe_signal(signaled)
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


def _describe_signal(match: re.Match[str]) -> str:
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
