"""The fork servers of a cluster's hosts, each kept by the agent there."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from workbench.cluster.node_agent import agent_of, pass_over
from workbench.core.node.agent_protocol import (
    AllSent,
    Forks,
    KeepForks,
    LogLine,
    RankEnded,
    encode_path,
)
from workbench.core.quote import one_line
from workbench.core.world.remote import Session

log = logging.getLogger("workbench.supervisor")

PLAIN = Forks("", "")
"""Where ranks start by themselves."""

ANSWER_SECONDS = 10.0
END_SECONDS = 3.0
MOST_LINES = 100  # a node is not trusted
MOST_STATUSES = 10_000


class RemoteForks:
    """The fork server of another host.

    Args:
        folder: Of its socket and its log.
        news: Is set whenever it reports something.

    Raises:
        MachineError: The host cannot be reached.
    """

    def __init__(self, session: Session, folder: str, news: threading.Event | None = None) -> None:
        self.statuses: dict[int, int] = {}
        self.session = session
        self.news = news or threading.Event()
        self._call = agent_of(session).call(KeepForks(encode_path(folder)))
        self._call.on_news = self.news.set
        self._place: Forks | None = None
        self._lines = 0

    @property
    def is_lost(self) -> bool:
        """Whether nothing more is heard of it."""
        return not self.session.is_open or self._call.is_over

    def hear(self) -> set[int]:
        """Take what has been reported; return the ranks that have ended since."""
        ended = set()
        with pass_over(self.session, "its ranks start by themselves"):
            for message in self._call.take():
                match message:
                    case Forks() as place:
                        self._place = place
                    case RankEnded(pid, status):
                        self.statuses.pop(pid, None)  # the newest is last, and kept longest
                        self.statuses[pid] = status
                        if len(self.statuses) > MOST_STATUSES:
                            del self.statuses[next(iter(self.statuses))]
                        ended.add(pid)
                    case LogLine(text) if self._lines < MOST_LINES:
                        self._lines += 1
                        log.warning("%s: %s", self.session.host.address, one_line(text))
        return ended

    def place(self) -> Forks | None:
        """Return where ranks can be forked."""
        self.hear()
        return PLAIN if self.is_lost else self._place

    def end(self) -> None:
        """Keep it no longer, and wait a moment for that; ranks that are left keep the server."""
        if not self.is_lost:
            self._call.post(AllSent())
            with pass_over(self.session, "its fork server may be left"):
                self._call.result(END_SECONDS)


def common_place(hosts: Mapping[str, Callable[[], Forks | None]], news: threading.Event) -> Forks:
    """Return where all hosts fork ranks: mpiexec starts the same command on each of them.

    Args:
        hosts: By address, what returns the host's answer; None while there is none.
        news: Is set when a host reports something.
    """
    deadline = time.monotonic() + ANSWER_SECONDS
    found = {address: place() for address, place in hosts.items()}
    while None in found.values() and (left := deadline - time.monotonic()) > 0:
        news.wait(left)
        news.clear()
        found = {address: place() for address, place in hosts.items()}
    first, *_ = found
    for address, forks in found.items():
        if forks is None or not forks.path:
            why = "has no fork server" if forks else "did not say whether it has a fork server"
        elif forks != found[first]:
            why = f"has its home folder or its environment at another path than {first}"
        else:
            continue
        log.warning("Ranks start by themselves: %s %s.", address, why)
        return PLAIN
    return found[first] or PLAIN
