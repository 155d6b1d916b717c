"""An agent's events about a node, over ssh and on this machine."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.cloud.conftest import log_in
from tests.waiting import until
from workbench.cloud.hosts.local_session import LocalSession
from workbench.cluster.node_agent import NodeAgent, agent_of
from workbench.core.node.agent_protocol import (
    AgentRequest,
    AskFacts,
    FileEnd,
    Gone,
    ReadFile,
    RenewLease,
    Signal,
    Unwatch,
    Watch,
    WatchProcesses,
    read_facts,
)
from workbench.core.world.remote import Session
from workbench.core.world.world import Host
from workbench.errors import MachineError
from workbench.node.stream import Call, StreamLost

FACTS = [sys.executable, "-m", "workbench.node.description"]
SECONDS = 60.0


class Asked:
    """The agent of a node, as the supervisor asks it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.agent: NodeAgent = agent_of(session)

    def ask(self, request: AgentRequest) -> object:
        return self.agent.ask(request, SECONDS)

    def watch(self) -> Call:
        return self.agent.call(WatchProcesses())


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


def test_it_describes_its_node(agent):
    facts = agent.ask(AskFacts())

    assert facts.host == agent.session.run(["hostname"]).output.strip()
    assert facts.executable == sys.executable
    assert facts.slots == max(1, facts.cores)
    assert {"dist-workbench", "numpy", "mpi4py"} <= {name for name, _ in facts.versions}
    assert "MPI" in facts.mpi or "mpi" in facts.mpi


def test_the_gpus_are_what_their_tool_says(agent, place):
    tool = "#!/bin/sh\necho 'Tesla M60'\necho 'Tesla M60'\n"
    agent.session.put(tool.encode(), f"{place}/nvidia-smi", 0o700)
    command = ["sh", "-c", f'PATH={place}:$PATH exec "$@" < /dev/null', "sh", *FACTS]

    facts = read_facts(agent.session.run(command).output)

    assert facts.gpus == ("Tesla M60",) * 2
    assert facts.slots == 2


def test_a_process_that_dies_is_reported_once_and_one_that_was_gone_at_once(agent):
    pid, other = start_rank(agent), start_rank(agent)
    watch = agent.watch()
    watch.post(Watch((pid, other, 4_000_000)))
    assert watch.receive(SECONDS) == [Gone((4_000_000,))]

    agent.session.run(["kill", "-9", str(pid)])

    assert watch.receive(SECONDS) == [Gone((pid,))]
    watch.post(Signal((other,), signal.SIGKILL))
    assert watch.receive(SECONDS) == [Gone((other,))]


def test_only_what_is_watched_is_signalled(agent):
    pid, other = start_rank(agent), start_rank(agent)
    watch = agent.watch()
    watch.post(Signal((pid,), signal.SIGKILL))
    watch.post(Watch((pid, other)))
    watch.post(Unwatch((pid,)))
    watch.post(Signal((pid, other), signal.SIGKILL))
    assert watch.receive(SECONDS) == [Gone((other,))]

    assert agent.session.run(["kill", str(pid)]).status == 0


def test_it_ends_with_its_input_and_leaves_the_ranks(agent):
    pid = start_rank(agent)
    watch = agent.watch()
    watch.post(Watch((pid, 4_000_000)))
    watch.receive(SECONDS)

    agent.agent.end()

    with pytest.raises(StreamLost):
        watch.receive(SECONDS)
    assert agent.session.run(["kill", str(pid)]).status == 0


def test_an_agent_that_was_killed_is_started_again_when_it_is_needed(tmp_path):
    with contextlib.closing(LocalSession(Host("localhost", 1), tmp_path)) as session:
        asked = Asked(session)
        asked.ask(AskFacts())
        (process,) = (
            one for one in psutil.Process().children() if "workbench.node.agent" in one.cmdline()
        )

        process.kill()

        until(lambda: asked.agent.lost, what="the end of the agent")
        assert agent_of(session).ask(AskFacts(), SECONDS).host


def test_a_session_has_one_agent_for_all_that_ask(agent):
    assert agent_of(agent.session) is agent.agent


def test_a_crash_file_is_read_from_its_end_and_can_be_removed(agent, place):
    path = f"{place}/crash-1-0.txt".encode()
    agent.session.put(b"x" * 100 + b"Fatal Python error", path.decode())

    assert agent.ask(ReadFile(path, 18, remove=True)) == FileEnd(b"Fatal Python error")
    assert agent.ask(ReadFile(path)) == FileEnd(b"")
    assert agent.ask(ReadFile(b"/proc/self")) == FileEnd(b"")
    assert agent.ask(ReadFile(b"a\0b")) == FileEnd(b"")


def test_what_a_library_prints_does_not_get_into_the_stream(tmp_path):
    prints = "import threading; print('hello', flush=True)\n"
    prints += "threading.Thread(target=lambda: [print(n) for n in range(9_000)]).start()"
    (tmp_path / "sitecustomize.py").write_text(prints)
    session = LocalSession(Host("localhost", 1), tmp_path, {"PYTHONPATH": str(tmp_path)})
    with contextlib.closing(session):
        assert agent_of(session).ask(AskFacts(), SECONDS).host


def test_a_request_that_cannot_be_done_is_refused_and_the_next_is_done(agent):
    with pytest.raises(MachineError, match="start one there"):
        agent.ask(RenewLease("one", 60.0, "/nowhere"))

    assert agent.ask(ReadFile(b"/nowhere")) == FileEnd(b"")


def test_it_renews_a_lease_and_says_when_there_is_none(agent, place):
    with pytest.raises(MachineError, match="start one there"):
        agent.ask(RenewLease("one", 60.0, place))
    lease = ["-m", "workbench.node.lease", "--cluster", "one", "--folder", place]
    more = ["--seconds", "60", "--command", "true"]
    assert agent.session.run([sys.executable, *lease, *more]).status == 0

    assert agent.ask(RenewLease("one", 60.0, place)) is None

    agent.session.run([sys.executable, *lease, "--release"])
    gone = ["pgrep", "-f", f"workbench.node.lease.*{place}"]
    until(lambda: agent.session.run(gone).status == 1, what="end of the lease")


@pytest.mark.root
def test_a_node_whose_lease_is_not_renewed_shuts_itself_down(hosts):
    host = hosts.start()
    session = log_in(hosts, len(hosts) - 1)
    lease = [sys.executable, "-m", "workbench.node.lease", "--cluster", "one", "--seconds", "3"]
    assert session.run(["env", "-u", "AWS_ACCESS_KEY_ID", *lease]).status == 0
    assert Asked(session).ask(RenewLease("one", 3.0)) is None
    assert host.is_up

    session.close()

    until(lambda: not host.is_up, what="end of the node")
    hosts.stop(host)
