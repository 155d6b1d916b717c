"""Renew the leases of nodes while the supervisor lives, and receive their notices.

The agent of each node does it. While a node is still being set up it cannot start, which is
repeated until it works. Until the node has a lease, signs of life are left there from the
first login on: without them it ends itself.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from workbench.cloud.rented.bootstrap import as_root
from workbench.cloud.rented.userdata import sign
from workbench.cluster.node_agent import NodeAgent, agent_of, end_agent
from workbench.core.fleet.form import LEASE_SECONDS
from workbench.core.node.agent_protocol import AskFacts, Notice, RenewLease, WatchNotices
from workbench.core.quote import one_line
from workbench.core.supervisor.log_messages import noticed
from workbench.core.world.remote import Session, python_of
from workbench.errors import MachineError
from workbench.node.stream import Call

# Not every system has a clock that also counts while it is suspended.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
log = logging.getLogger("workbench.supervisor")

RENEW_SECONDS = 60.0
# A single lost renewal ends no node.
RENEWALS = 5
AGAIN_SECONDS = 10.0
START_SECONDS = 30.0
SIGN_SECONDS = 10.0
MOST_AT_ONCE = 16
TURN_SECONDS = 1.0  # how long a turn waits for what it does on nodes
MOST_NOTICES = 16  # a node is not trusted
# The first ones end the node; a recommendation to replace it is only logged.
TAKING = ("terminate", "stop", "hibernate")
REBALANCE = "rebalance"
SHUTDOWN = ("shutdown", "-h", "now")
LEASE = ("-m", "workbench.node.lease")


@dataclass
class LeasedNode:
    """The agent and the lease of one node.

    Args:
        tried: When its agent was last started, by the monotonic clock.
        facts: What was first asked of the agent; it lives once that is answered.
        notices: The call that has its notices.
        renewal: The last renewal of its lease.
        leased: The latest end of its lease, in epoch seconds; None before it has one.
        signed: When a sign of life was last left there, by the same clock.
        noticed: The provider's notices about it.
        work: What is done on it now, or was done last.
    """

    session: Session
    agent: NodeAgent | None = None
    tried: float = -AGAIN_SECONDS
    facts: Call | None = None
    notices: Call | None = None
    renewal: Call | None = None
    renewed: float = -RENEW_SECONDS
    leased: float | None = None
    signed: float = -math.inf
    noticed: list[Notice] = field(default_factory=list)
    work: Future[None] | None = None

    @property
    def taken(self) -> list[float]:
        """When the provider takes it back, by each notice that says so."""
        return [notice.at for notice in self.noticed if notice.kind in TAKING]

    @property
    def is_heard(self) -> bool:
        """Whether its agent runs."""
        return self.agent is not None and not self.agent.lost

    @property
    def lives(self) -> bool:
        """Whether its agent has answered."""
        return self.facts is not None and self.facts.is_over and not self.facts.failure

    def needs_sign(self, since: float) -> bool:
        """Return whether it has neither a lease nor a sign of life newer than ``since``."""
        return self.session.is_open and self.leased is None and self.signed <= since

    def needs_agent(self, now: float) -> bool:
        """Return whether an agent is to be started now."""
        return self.session.is_open and not self.is_heard and now - self.tried >= AGAIN_SECONDS


class NodeLeases:
    """The leases of all rented nodes of one cluster.

    Args:
        expires: Returns when all leases end even if renewed, in epoch seconds; 0 for never.
        seconds: Returns how long a lease lasts when it is not renewed.
        renewal: Longest time between two renewals, in seconds.
        folder: Where hosts keep their leases that are not ours to shut down: their processes of the
            cluster end instead. Empty for nodes that shut down.
        clock: A clock that counts while suspended: after a long sleep, leases are renewed at once.
    """

    def __init__(
        self,
        cluster: str,
        expires: Callable[[], float],
        *,
        seconds: Callable[[], float] = lambda: LEASE_SECONDS,
        renewal: float = RENEW_SECONDS,
        folder: str = "",
        clock: Callable[[], float] = lambda: time.clock_gettime(_STEADY),
    ) -> None:
        self._cluster = cluster
        self._expires = expires
        self._seconds = seconds
        self._renewal = renewal
        self._folder = folder
        self._clock = clock
        self._lock = threading.Lock()
        self._nodes: dict[str, LeasedNode] = {}
        self._parted: frozenset[str] = frozenset()
        self._pool = ThreadPoolExecutor(MOST_AT_ONCE, "leases")

    def __repr__(self) -> str:
        return f"<NodeLeases of {self._cluster}: {len(self._nodes)} nodes>"

    def begin(self, id_: str, session: Session) -> None:
        """Renew the lease of a machine over this session from now on."""
        with self._lock:
            before = self._nodes.get(id_)
            # Notices that came over an earlier session stay valid.
            self._nodes[id_] = LeasedNode(session, noticed=before.noticed if before else [])

    def part(self, ids: Iterable[str]) -> None:
        """Stop renewing the leases of these machines: they are to end."""
        with self._lock:
            self._parted |= {*ids}

    def shut_down(self, session: Session) -> None:
        """Shut a node down, which terminates it; if it is unreachable, its lease ends it.

        The launch sets ``InstanceInitiatedShutdownBehavior`` to terminate.
        """
        command = as_root(session, SHUTDOWN)
        with contextlib.suppress(MachineError):
            session.run(command, seconds=START_SECONDS)

    def restart(self, session: Session) -> None:
        """Start a new agent on a node, since another version of it was installed."""
        for node in self._all().values():
            if node.session is session:
                end_agent(session)
                node.tried = -AGAIN_SECONDS

    def lease(self, session: Session) -> None:
        """Start the lease of a node, in place of the earlier one.

        Raises:
            MachineError: It did not start.
        """
        expires = self._expires()
        command = [python_of(session), *LEASE, "--cluster", self._cluster]
        command += ["--seconds", f"{self._seconds():.0f}", "--expires", f"{expires:.0f}"]
        if self._folder:
            command += ["--folder", self._folder, "--spare-machine"]
        else:
            command += ["--command", " ".join(as_root(session, SHUTDOWN))]
        done = session.run(command, seconds=START_SECONDS)
        if done.status:
            reason = (done.errors.strip() or "no output").splitlines()[-1]
            raise MachineError(
                f"{session.host.address} could not start its lease ({reason}), without which it "
                "would not end by itself, so it will be replaced."
            )
        for node in self._all().values():
            if node.session is session:
                node.leased = expires

    def turn(self) -> dict[str, float]:
        """Do what is due; return when machines with an interruption notice are taken back."""
        nodes = self._all()
        now = self._clock()
        renewal = min(self._renewal, self._seconds() / RENEWALS)
        due = [
            one
            for id_, one in nodes.items()
            if id_ not in self._parted
            and one.is_heard
            and one.lives
            and now - one.renewed >= renewal
        ]
        # First of all: whatever a node says, the others are not to end for it.
        if due:
            self._renew(due, now)
        self._start([one for one in nodes.values() if one.needs_agent(now)], now)
        if not self._folder:  # such a host was not booted by us, and waits for no sign
            self._sign([one for one in nodes.values() if one.needs_sign(now - renewal)], now)
        for id_, node in nodes.items():
            self._hear(id_, node)
        return {id_: min(node.taken) for id_, node in nodes.items() if node.taken}

    # -- inside

    def _all(self) -> dict[str, LeasedNode]:
        """Return the nodes with an open session; a lost one is kept only for its notice."""
        with self._lock:
            self._nodes = {
                id_: one for id_, one in self._nodes.items() if one.session.is_open or one.taken
            }
            return dict(self._nodes)

    def _hear(self, id_: str, node: LeasedNode) -> None:
        with _for(node):
            if node.renewal is not None and node.renewal.is_over:
                if node.renewal.failure and node.leased is not None and node.is_heard:
                    log.warning("Node %s has no lease: %s", id_, one_line(node.renewal.failure))
                    node.leased = None
                    node.renewed = -self._renewal
                node.renewal = None
            for message in node.notices.take() if node.notices and node.is_heard else ():
                if isinstance(message, Notice):
                    self._note(id_, node, message)

    def _note(self, id_: str, node: LeasedNode, notice: Notice) -> None:
        is_known = notice.kind in (*TAKING, REBALANCE)
        if is_known and notice not in node.noticed and len(node.noticed) < MOST_NOTICES:
            node.noticed.append(notice)
            at_text = time.strftime("%H:%M:%S", time.localtime(notice.at))
            log.info("%s", noticed(id_, notice.kind, at_text))

    def _sign(self, nodes: list[LeasedNode], now: float) -> None:
        """Leave a sign of life on nodes without a lease, so that they do not end themselves."""
        script = sign(self._seconds(), self._expires())

        def leave(node: LeasedNode) -> None:
            node.signed = now
            session = node.session
            session.run(as_root(session, ["sh", "-c", script]), seconds=SIGN_SECONDS)

        self._side_by_side(leave, nodes)

    def _start(self, nodes: list[LeasedNode], now: float) -> None:
        def start(node: LeasedNode) -> None:
            node.tried = now
            node.agent = agent_of(node.session)
            node.facts = node.agent.call(AskFacts())
            node.notices = node.agent.call(WatchNotices())

        self._side_by_side(start, nodes)

    def _renew(self, nodes: list[LeasedNode], now: float) -> None:
        expires = self._expires()
        renewal = RenewLease(self._cluster, self._seconds(), self._folder)
        again = [one for one in nodes if one.leased != expires]
        for node in nodes:
            node.renewed = now
            if node.leased == expires and node.agent is not None:
                with _for(node):
                    node.renewal = node.agent.call(renewal)
        # The lease of a node that was set up by an earlier supervisor is unknown here.
        self._side_by_side(lambda node: self.lease(node.session), again)

    def _side_by_side(self, work: Callable[[LeasedNode], None], nodes: list[LeasedNode]) -> None:
        """Do it on all nodes at once; a turn does not wait for one that takes long."""

        def do(node: LeasedNode) -> None:
            with _for(node):
                work(node)

        begun = []
        for node in nodes:
            if node.work is None or node.work.done():
                node.work = self._pool.submit(do, node)
                begun.append(node.work)
        wait(begun, TURN_SECONDS)


@contextlib.contextmanager
def _for(node: LeasedNode) -> Iterator[None]:
    """Leave an error of the body with this node: the leases of all others are renewed."""
    try:
        yield
    except MachineError as error:
        log.info("%s", error)
    except Exception:  # its agent is started again, perhaps without what caused that
        log.exception("The agent of %s is ended.", node.session.host.address)
        if node.agent is not None:
            node.agent.end(force=True)
