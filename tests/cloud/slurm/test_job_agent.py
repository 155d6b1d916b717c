"""The agent of a node and the supervisor's listener, as two programs on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import pytest

from tests.waiting import until
from workbench.cloud.hosts.ssh import SshSession, new_key
from workbench.cloud.slurm.dials import Dials
from workbench.cloud.slurm.job_agent import AgentNode, AgentSettings
from workbench.core.world.world import Host
from workbench.errors import MachineError

pytestmark = pytest.mark.contract

CLIENT, HOST, OTHER = new_key(), new_key(), new_key()
HERE = ("127.0.0.1",)


@dataclass
class Listener:
    dials: Dials
    port: int

    def node(self) -> AgentNode:
        """Return the node that waits, once one does."""
        [node] = until(self.dials.nodes, what="an agent")
        return node

    def session(self) -> SshSession:
        """Return a session with the agent that waits."""
        self.node()
        taken = self.dials.take("7", "n1")
        assert taken is not None
        return SshSession(Host(taken[0].address, taken[0].slots), taken[1])


@pytest.fixture
def listener() -> Iterator[Listener]:
    dials = Dials(CLIENT[0], HOST[1])
    yield Listener(dials, dials.listen(lambda: [0]))
    dials.close()


@contextlib.contextmanager
def agent(listener: Listener, **changes: object) -> Iterator[subprocess.Popen[str]]:
    """Run an agent, as `srun` does."""
    given = AgentSettings(HOST[0], CLIENT[1], HERE, listener.port, 600.0)
    text = json.dumps(asdict(given) | changes)
    environment = os.environ | {
        "SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", "SLURM_CPUS_ON_NODE": "3", "PMI_RANK": "4",
        "PMIX_RANK": "nonsense", "CUDA_VISIBLE_DEVICES": "",
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "workbench.cloud.slurm.job_agent"], env=environment, text=True,
        stdin=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.close()
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_an_agent_says_who_it_is_and_runs_commands(listener: Listener) -> None:
    with agent(listener):
        node = listener.node()
        session = listener.session()

        done = session.run(["sh", "-c", "cat; echo wrong >&2; exit 3"], input="typed")
        variables = session.run(["sh", "-c", "env | grep -E '^(SLURM|PMI)'; exit 0"]).output
        killed = session.run(["sh", "-c", "kill -KILL $$"])
        running = session.start(["sh", "-c", "cat; echo closed"])
        running.write(b"line\n")
        assert until(running.lines, what="a line") == ["line"]
        running.close_input()

        assert (node.job, node.name, node.address, node.slots) == ("7", "n1", "127.0.0.1", 3)
        assert (done.status, done.output, done.errors) == (3, "typed", "wrong\n")
        assert variables == ""
        assert killed.status == 137
        assert until(running.lines, what="the end") == ["closed"]
        session.close()


def test_an_agent_dials_again_when_the_session_was_lost(listener: Listener) -> None:
    with agent(listener):
        first = listener.session()
        left = first.start(["sh", "-c", "cat; exit 0"])
        first._connection.abort()

        second = listener.session()

        assert second.run(["echo", "again"]).output == "again\n"
        assert until(lambda: left.status is not None, what="the end of what it ran")
        second.close()


def test_commands_do_not_get_the_signals_of_the_agent(listener: Listener) -> None:
    with agent(listener) as process:
        session = listener.session()
        tail = session.start(["sh", "-c", 'exec tail -n +1 -f -- "$WORKBENCH_SLURM_NOTICES"'])

        process.terminate()

        [line] = until(tail.lines, what="the notice")
        assert line.startswith("SIGTERM ")
        assert process.poll() is None
        session.close()


def test_ports_of_the_loopback_are_forwarded(listener: Listener) -> None:
    with agent(listener), socket.create_server(("127.0.0.1", 0)) as server:
        session = listener.session()
        with pytest.raises(MachineError, match="cannot be used"):
            session.bring([server.getsockname()[1]])  # both are this machine's, so it is in use
        session.close()


@pytest.mark.parametrize(
    "wrong", [{"host_key": OTHER[0]}, {"client_key": OTHER[1]}], ids=["host key", "client key"]
)
def test_a_stranger_gets_no_session(listener: Listener, wrong: dict[str, str]) -> None:
    with agent(listener, **wrong), agent(listener):
        until(listener.dials.nodes, what="the right one")

        assert len(listener.dials.nodes()) == 1
        assert listener.session().run(["echo", "right"]).output == "right\n"


def test_strangers_that_say_nothing_keep_no_agent_away(listener: Listener) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", listener.port)))
        with agent(listener):
            assert listener.session().run(["echo", "here"]).output == "here\n"


def test_an_agent_without_a_supervisor_ends_with_its_lease() -> None:
    dials = Dials(CLIENT[0], HOST[1])
    port = dials.listen(lambda: [0])
    dials.close()
    with agent(Listener(dials, port), lease=0.2) as process:
        assert process.wait(30.0) == 0
