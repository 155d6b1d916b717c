"""An agent's events about a node, over ssh and on this machine."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cloud.conftest import log_in
from tests.rehearsal.hosts import until
from workbench.cloud.hosts.local_session import LocalSession
from workbench.core.node.agent_protocol import (
    Added,
    Alive,
    AskFacts,
    Follow,
    Gone,
    NodeFacts,
    Read,
    Renew,
    Renewed,
    Request,
    Signal,
    Text,
    Unfollow,
    Unwatch,
    Watch,
    line_of,
    read_event,
)
from workbench.core.world.remote import RemoteProcess, Session
from workbench.core.world.world import Host

AGENT = [sys.executable, "-m", "workbench.node.agent"]


class Asked:
    """A agent, and what it has said."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.process: RemoteProcess = session.start(AGENT)
        self.events: list[Any] = []

    def ask(self, request: Request) -> None:
        self.process.write(line_of(request))

    def next(self, kind: type, fits: Callable[[Any], bool] = bool) -> Any:
        """Take the next event of a kind."""

        def found() -> Any:
            self.events += filter(None, map(read_event, self.process.lines()))
            return next((e for e in self.events if isinstance(e, kind) and fits(e)), None)

        event = until(found, f"{kind.__name__}", lambda: str(self.events))
        self.events.remove(event)
        return event


@pytest.fixture(params=[pytest.param("ssh", marks=pytest.mark.root), "local"])
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Asked]:
    if request.param == "ssh":
        session: Session = log_in(request.getfixturevalue("hosts"))
    else:
        session = LocalSession(Host("localhost", 1), tmp_path)
    with contextlib.closing(session):
        yield Asked(session)


@pytest.fixture
def place(agent: Asked) -> str:
    return agent.session.run(["mktemp", "-d"]).output.strip()


def start_rank(agent: Asked, script: str = "exec sleep 100") -> int:
    """Start a process on the node that its session does not hold."""
    detached = f"setsid sh -c '{script}' < /dev/null > /dev/null 2>&1 & echo $!"
    return int(agent.session.run(["sh", "-c", detached]).output)


def test_it_begins_with_the_facts_of_its_node(agent):
    facts = agent.next(NodeFacts)

    assert facts.host == agent.session.run(["hostname"]).output.strip()
    assert facts.executable == sys.executable
    assert facts.slots == max(1, facts.cores)
    assert facts.nbytes > facts.free_nbytes > 0
    assert {"workbench", "numpy", "mpi4py"} <= {name for name, _ in facts.versions}
    assert "MPI" in facts.mpi or "mpi" in facts.mpi
    agent.ask(AskFacts())
    assert agent.next(NodeFacts).now > facts.now


def test_the_gpus_are_what_their_tool_says(agent, place):
    tool = "#!/bin/sh\necho 'Tesla M60, 7618'\necho 'Tesla M60, 7618'\n"
    agent.session.put(tool.encode(), f"{place}/nvidia-smi", 0o700)
    command = ["sh", "-c", f'PATH={place}:$PATH exec "$@" < /dev/null', "sh", *AGENT]

    facts = read_event(agent.session.run(command).output)

    assert [(gpu.name, gpu.nbytes) for gpu in facts.gpus] == [("Tesla M60", 7618 << 20)] * 2
    assert facts.slots == 2


def test_a_process_that_dies_is_reported_once_and_one_that_was_gone_at_once(agent):
    pid, other = start_rank(agent), start_rank(agent)
    agent.ask(Watch((pid, other, 4_000_000)))
    assert agent.next(Gone).pids == (4_000_000,)

    agent.session.run(["kill", "-9", str(pid)])

    assert agent.next(Gone).pids == (pid,)
    agent.ask(Signal((other,), signal.SIGKILL))
    assert agent.next(Gone).pids == (other,)


def test_only_what_is_watched_is_signalled(agent):
    pid = start_rank(agent)
    agent.ask(Signal((pid,), signal.SIGKILL))
    agent.ask(Watch((pid,)))
    agent.ask(Unwatch((pid,)))
    agent.ask(Signal((pid,), signal.SIGKILL))
    agent.ask(AskFacts())
    agent.next(NodeFacts)
    agent.next(NodeFacts)

    assert agent.session.run(["kill", str(pid)]).status == 0


def test_it_ends_with_its_input_and_leaves_the_ranks(agent):
    pid = start_rank(agent)
    agent.ask(Watch((pid,)))
    agent.next(NodeFacts)

    agent.process.end()

    until(lambda: agent.process.status is not None, "end of the agent")
    assert agent.session.run(["kill", str(pid)]).status == 0


def test_a_crash_file_is_read_from_its_end_and_can_be_removed(agent, place):
    path = f"{place}/crash-1-0.txt"
    agent.session.put(b"x" * 100 + b"Fatal Python error", path)

    agent.ask(Read(path, 18, remove=True))

    assert agent.next(Text) == Text(path, "Fatal Python error")
    agent.ask(Read(path))
    assert agent.next(Text) == Text(path, "")
    agent.ask(Read("/proc/self"))
    assert agent.next(Text) == Text("/proc/self", "")


def test_what_is_added_to_a_file_is_reported_line_by_line(agent, place):
    path = f"{place}/output.log"
    agent.ask(Follow(path))
    agent.session.run(["sh", "-c", f"printf 'one\\ntwo\\nhalf' > {path}"])
    assert agent.next(Added) == Added(path, "one\ntwo\n", 8)

    agent.session.run(["sh", "-c", f"printf ' whole\\n' >> {path}"])

    assert agent.next(Added) == Added(path, "half whole\n", 19)
    agent.ask(Unfollow(path))


def test_it_gives_signs_of_life(agent):
    assert agent.next(Alive).now > 0


def test_what_is_no_request_is_passed_over(agent):
    agent.process.write('nonsense\n["Watch",{}]\n\n')
    agent.ask(Read("/nowhere"))

    assert agent.next(Text).text == ""


def test_it_renews_a_lease_and_says_when_there_is_none(agent, place):
    agent.ask(Renew("one", 60.0, place))
    assert "start one there" in agent.next(Renewed).error
    lease = ["-m", "workbench.node.lease", "--cluster", "one", "--folder", place]
    more = ["--seconds", "60", "--command", "true"]
    assert agent.session.run([sys.executable, *lease, *more]).status == 0

    agent.ask(Renew("one", 60.0, place))

    assert agent.next(Renewed) == Renewed("one", 60.0)
    agent.session.run([sys.executable, *lease, "--release"])
    gone = ["pgrep", "-f", f"workbench.node.lease.*{place}"]
    until(lambda: agent.session.run(gone).status == 1, "end of the lease")


@pytest.mark.root
def test_a_node_whose_lease_is_not_renewed_shuts_itself_down(hosts):
    host = hosts.start()
    session = log_in(hosts, len(hosts) - 1)
    lease = [sys.executable, "-m", "workbench.node.lease", "--cluster", "one", "--seconds", "3"]
    assert session.run(["env", "-u", "AWS_ACCESS_KEY_ID", *lease]).status == 0
    agent = Asked(session)
    agent.ask(Renew("one", 3.0))
    assert agent.next(Renewed).error == ""
    assert host.is_up

    session.close()

    until(lambda: not host.is_up, "end of the node")
    hosts.stop(host)
