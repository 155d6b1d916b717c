"""Attend to rented nodes: renew their leases while the supervisor lives, hear their notices.

Each session carries one warden process for it. While a node is still being set up there is none
to be started; it is tried again until it runs.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from workbench.core.session import RemoteProcess, Session
from workbench.core.warden import Alive, Event, Heed, Notice, Renew, Renewed, line_of, read_event
from workbench.errors import MachineError
from workbench.supervisor.greeting import as_root

log = logging.getLogger("workbench.supervisor")

# Not renewed for so long, a node ends itself: a laptop may sleep, and nobody pays for a night.
LEASE_SECONDS = 1800.0
RENEW_SECONDS = 60.0
AGAIN_SECONDS = 10.0
START_SECONDS = 30.0
MOST_AT_ONCE = 16
# The others end the node; a rebalance recommendation is heeded by nobody who still computes.
TAKING = ("terminate", "stop", "hibernate")
SHUTDOWN = ("shutdown", "-h", "now")
WARDEN = (sys.executable, "-m", "workbench.node.warden")
LEASE = (sys.executable, "-m", "workbench.node.lease")


@dataclass
class Attendant:
    """What is known of one node.

    Args:
        tried: When its warden was last started, in seconds of a clock that nobody sets.
        lives: Whether the warden has said anything yet.
        leased: Until when the lease was started to go at most, epoch seconds; None before.
    """

    session: Session
    process: RemoteProcess | None = None
    tried: float = -AGAIN_SECONDS
    lives: bool = False
    renewed: float = -RENEW_SECONDS
    leased: float | None = None
    taken: list[Notice] = field(default_factory=list)

    @property
    def is_heard(self) -> bool:
        """Whether its warden runs."""
        return self.process is not None and self.process.status is None

    def needs_warden(self, now: float) -> bool:
        """Whether a warden is to be started now."""
        return self.session.is_open and not self.is_heard and now - self.tried >= AGAIN_SECONDS


class Attendance:
    """All rented nodes of one cluster.

    Args:
        expires: Returns when all is to end whoever renews it, in epoch seconds; 0 for never.
        seconds: For how long a lease runs when it is not renewed.
        renewal: Seconds from one renewal to the next.
        shutdown: What ends a node; by root.
    """

    def __init__(
        self,
        cluster: str,
        expires: Callable[[], float],
        *,
        seconds: float = LEASE_SECONDS,
        renewal: float = RENEW_SECONDS,
        shutdown: Iterable[str] = SHUTDOWN,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._expires = expires
        self._seconds = seconds
        self._renewal = renewal
        self._shutdown = tuple(shutdown)
        self._clock = clock
        self._lock = threading.Lock()
        self._attendants: dict[str, Attendant] = {}

    def __repr__(self) -> str:
        return f"<Attendance of {self._cluster}: {len(self._attendants)} nodes>"

    def begin(self, id_: str, session: Session) -> None:
        """Attend to a machine by this session from now on."""
        with self._lock:
            before = self._attendants.get(id_)
            # What the place has said, it has said.
            self._attendants[id_] = Attendant(session, taken=before.taken if before else [])

    def restart(self, session: Session) -> None:
        """Have another warden started on a node, which has another version of it now."""
        for attendant in self._all().values():
            if attendant.session is session and attendant.process is not None:
                attendant.process.end()
                attendant.tried = -AGAIN_SECONDS

    def lease(self, session: Session) -> None:
        """Start the lease of a node, in the place of the one before.

        Raises:
            MachineError: It did not start.
        """
        expires = self._expires()
        command = [*LEASE, "--cluster", self._cluster, "--seconds", f"{self._seconds:.0f}"]
        command += ["--expires", f"{expires:.0f}", "--command"]
        command.append(" ".join(as_root(session, self._shutdown)))
        done = session.run(command, seconds=START_SECONDS)
        if done.status:
            said = (done.errors.strip() or "it said nothing").splitlines()[-1]
            raise MachineError(
                f"{session.host.address} could not start its lease ({said}), without which it "
                "would not end by itself; it is replaced."
            )
        for attendant in self._all().values():
            if attendant.session is session:
                attendant.leased = expires

    def turn(self) -> frozenset[str]:
        """Do what is due, and return the machines that the place has said it will take back."""
        attendants = self._all()
        for id_, attendant in attendants.items():
            self._hear(id_, attendant)
        now = self._clock()
        self._start([one for one in attendants.values() if one.needs_warden(now)], now)
        due = [
            one
            for one in attendants.values()
            if one.is_heard and one.lives and now - one.renewed >= self._renewal
        ]
        if due:
            self._renew(due, now)
        return frozenset(id_ for id_, attendant in attendants.items() if attendant.taken)

    # -- inside

    def _all(self) -> dict[str, Attendant]:
        """Return those whose session stands; who is lost is forgotten, but for its notice."""
        with self._lock:
            self._attendants = {
                id_: one
                for id_, one in self._attendants.items()
                if one.session.is_open or one.taken
            }
            return dict(self._attendants)

    def _hear(self, id_: str, attendant: Attendant) -> None:
        for line in attendant.process.lines() if attendant.process else ():
            event = read_event(line)
            if event is not None:
                attendant.lives = True
                self._note(id_, attendant, event)

    def _note(self, id_: str, attendant: Attendant, event: Event) -> None:
        match event:
            case Notice(kind, at):
                log.info("%s: the place says %s at %.0f", id_, kind, at)
                if kind in TAKING:
                    attendant.taken.append(event)
            case Renewed() if event.error:
                log.info("%s has no lease: %s", id_, event.error)
                attendant.leased = None
                attendant.renewed = -self._renewal
            case Alive() | Renewed():
                pass

    def _start(self, attendants: list[Attendant], now: float) -> None:
        def start(attendant: Attendant) -> None:
            attendant.tried = now
            attendant.lives = False
            try:
                attendant.process = attendant.session.start(WARDEN)
                attendant.process.write(line_of(Heed()))
            except MachineError as error:
                log.info("%s", error)

        _side_by_side(start, attendants)

    def _renew(self, attendants: list[Attendant], now: float) -> None:
        expires = self._expires()
        for attendant in attendants:
            attendant.renewed = now
            if attendant.leased == expires and attendant.process is not None:
                attendant.process.write(line_of(Renew(self._cluster, self._seconds)))
        # Of a node that was set up before this supervisor began it is not known.
        _side_by_side(self._lease_anew, [one for one in attendants if one.leased != expires])

    def _lease_anew(self, attendant: Attendant) -> None:
        try:
            self.lease(attendant.session)
        except MachineError as error:
            log.info("%s", error)


def _side_by_side(work: Callable[[Attendant], None], attendants: list[Attendant]) -> None:
    if attendants:
        with ThreadPoolExecutor(min(MOST_AT_ONCE, len(attendants))) as pool:
            list(pool.map(work, attendants))
