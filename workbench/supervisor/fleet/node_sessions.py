"""Sessions with a cluster's nodes, on threads: connect, prepare, save, disconnect."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from workbench.core.fleet.model import FleetWish, Machine, Node, NodeState
from workbench.core.fleet.node_health import SessionState
from workbench.core.fleet.node_provider import Report
from workbench.core.world.remote import Session
from workbench.supervisor.tasks import BackgroundTasks

WATCH_SECONDS = 1.0
RETRY_SECONDS = 2.0
LONG = ("open", "prepare", "save", "close")


@dataclass(frozen=True)
class SessionWork:
    """Functions that use a session; they run on threads and raise ``MachineError``.

    Args:
        open: Opens a verified session with a machine.
        equip: Installs on a node what every node of its provider needs.
        prepare: Prepares a node for worlds.
        save: Makes a node send the output of its runs.
        leave: Removes this cluster's files from a node.
    """

    open: Callable[[Machine], Session]
    equip: Callable[[Session, Report], None]
    prepare: Callable[[Session, FleetWish, Report], None]
    save: Callable[[Session], None]
    leave: Callable[[Session], None]


class NodeSessions:
    """The sessions with a cluster's nodes, and the work in them.

    Args:
        tasks: Runs the work and reports its results.
        node: Returns a recorded node by its id.
        put: Records a node.
        troubles: Receives the last error of each kind of work, empty if there is none.
    """

    def __init__(
        self,
        work: SessionWork,
        tasks: BackgroundTasks,
        node: Callable[[str], Node | None],
        put: Callable[[Node], None],
        troubles: dict[str, str],
    ) -> None:
        self.now = 0.0  # epoch seconds of the turn
        self._work = work
        self._tasks = tasks
        self._node = node
        self._put = put
        self._troubles = troubles
        self._sessions: dict[str, Session] = {}
        self._contacts: dict[str, SessionState] = {}
        self._progress: dict[str, str] = {}
        self._watched = 0.0

    def __repr__(self) -> str:
        return f"<NodeSessions: {len(self._sessions)} sessions>"

    # -- observed state

    @property
    def contacts(self) -> tuple[SessionState, ...]:
        """The sessions with all nodes that were tried."""
        return tuple(self._contacts.values())

    def session(self, id_: str) -> Session | None:
        """Return the session with a node; None if there is none."""
        return self._sessions.get(id_)

    def at(self, address: str) -> Session | None:
        """Return the session with the node at an address; None if there is none."""
        for id_, session in self._sessions.items():
            node = self._node(id_)
            if node is not None and node.address == address:
                return session
        return None

    def list_reached(self) -> set[str]:
        """Return the nodes with an open session."""
        return {id_ for id_ in self._sessions if self._contacts[id_].open}

    def is_lost(self, id_: str) -> bool:
        """Return whether there was a session with a node, and it was lost."""
        session = self._sessions.get(id_)
        return session is not None and not session.is_open

    # -- observe

    def watch(self, *, at_once: bool = False) -> None:
        """Record which sessions were lost; once in a while is enough."""
        if self.now - self._watched < WATCH_SECONDS and not at_once:
            return
        self._watched = self.now
        for id_ in self._sessions:
            contact = self._contacts[id_]
            if contact.open and not contact.working and self.is_lost(id_):
                self._contacts[id_] = SessionState(id_, open=False, since=self.now)

    def hear(self) -> bool:
        """Show the messages of threads about nodes in preparation; return false if none came."""
        ids = [*self._progress]
        for id_ in ids:
            sentence, node = self._progress.pop(id_), self._node(id_)
            if node is not None and node.state is NodeState.VERIFIED and not node.failed:
                self._put(replace(node, message=sentence))
        return bool(ids)

    # -- act

    def open(self, id_: str, machine: Machine) -> None:
        """Start opening a session with a node."""
        if self._tasks.start(
            ("open", id_),
            lambda: self._work.open(machine),
            lambda session, trouble: self._note_opening(id_, session, trouble),
            self.now,
            RETRY_SECONDS,
        ):
            self._work_on(id_, working=True)

    def make_ready(self, id_: str, wish: FleetWish) -> None:
        """Start preparing a node for worlds, if there is a session with it."""
        session = self._sessions.get(id_)
        if session is not None and self._tasks.start(
            ("prepare", id_),
            lambda: self._equip_and_prepare(id_, session, wish),
            lambda _, trouble: self._note_preparation(id_, session, trouble),
            self.now,
            RETRY_SECONDS,
        ):
            self._work_on(id_, working=True)

    def save(self, id_: str) -> None:
        """Start saving the output of a node's runs, if there is a session with it."""
        if session := self._sessions.get(id_):
            work, heard = partial(self._work.save, session), self._heard("save")
            self._tasks.start(("save", id_), work, heard, self.now)

    def saving(self, ids: Sequence[str]) -> Callable[[], None]:
        """Return a function for a thread that makes all these nodes save, and waits for them."""
        sessions = [self._sessions[id_] for id_ in ids if id_ in self._sessions]

        def save() -> None:
            if sessions:
                with ThreadPoolExecutor(len(sessions)) as pool:
                    list(pool.map(self._work.save, sessions))

        return save

    def each(self, ids: Sequence[str], work: Callable[[Session], None]) -> Callable[[], None]:
        """Return a function for a thread that does ``work`` in open sessions with these nodes."""
        found = [self._sessions[id_] for id_ in ids if id_ in self._sessions]

        def do() -> None:
            sessions = [session for session in found if session.is_open]
            if sessions:
                with ThreadPoolExecutor(len(sessions)) as pool:
                    list(pool.map(work, sessions))

        return do

    def leave(self, ids: Collection[str]) -> None:
        """Start removing this cluster's files from nodes, and close the sessions with them."""
        for id_ in {*ids} & self._sessions.keys():
            self._close(self._sessions.pop(id_), self._work.leave)

    def leave_all(self) -> None:
        """Start leaving every node."""
        self.leave([*self._sessions])

    def forget(self, id_: str) -> None:
        """Drop a node that is gone."""
        self.leave([id_])
        self._contacts.pop(id_, None)

    def close(self) -> None:
        """Close the sessions; the nodes are kept as they are."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    # -- inside

    def _note_opening(self, id_: str, session: Session | None, trouble: str) -> None:
        node = self._node(id_)
        if session is None:
            self._work_on(id_, working=False)
            if node is not None:
                self._put(replace(node, message=trouble))
            return
        if id_ in self._sessions:
            self._close(self._sessions.pop(id_))
        if node is None or node.state is NodeState.GONE:
            session.close()
            return
        self._sessions[id_] = session
        self._contacts[id_] = SessionState(id_, open=True, since=self.now)
        early = node.state in (NodeState.ASKED, NodeState.BOOTING)
        since = self.now if early else node.since
        state = NodeState.VERIFIED if early else node.state
        self._put(replace(node, state=state, since=since, message=""))

    def _equip_and_prepare(self, id_: str, session: Session, wish: FleetWish) -> None:
        def report(sentence: str) -> None:
            self._progress[id_] = sentence

        self._work.equip(session, report)
        self._work.prepare(session, wish, report)

    def _note_preparation(self, id_: str, session: Session, trouble: str) -> None:
        self._progress.pop(id_, None)
        self._work_on(id_, working=False)
        node = self._node(id_)
        if node is None or node.state is not NodeState.VERIFIED:
            return
        if trouble and not session.is_open:
            # An interrupted preparation resumes when the node is reached again.
            self._put(replace(node, message=trouble))
        elif trouble:
            self._put(replace(node, failed=True, message=trouble, since=self.now))
        else:
            self._put(replace(node, state=NodeState.READY, message="", since=self.now))

    def _work_on(self, id_: str, *, working: bool) -> None:
        before = self._contacts.get(id_) or SessionState(id_, open=False, since=self.now)
        self._contacts[id_] = replace(before, working=working)

    def _heard(self, what: str) -> Callable[[object, str], None]:
        return lambda _, trouble: self._troubles.update({what: trouble})

    def _close(
        self, session: Session, before: Callable[[Session], None] = lambda session: None
    ) -> None:
        def work() -> None:
            before(session)
            session.close()

        self._tasks.start(("close", id(session)), work, self._heard("close"), self.now)
