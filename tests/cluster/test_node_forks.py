"""The fork servers of other hosts: what an agent reports there, and what is made of it here."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from tests.supervisor.agents import Over, Talker
from tests.waiting import until
from workbench.cloud.hosts.local_session import LocalSession
from workbench.cluster import node_forks
from workbench.cluster.launcher import through_stub
from workbench.cluster.node_forks import PLAIN, RemoteForks, common_place
from workbench.core.node.agent_protocol import Forks, LogLine, RankEnded
from workbench.core.world.world import Host

HERE = Forks("/run/ranks/forks", "/env/fork_stub.py")
SECONDS = 60.0
AGENT = "workbench.node.agent"
WAITS = "import time; print(flush=True); time.sleep(60)"


def test_an_agent_replaces_its_fork_server_and_reports_the_ends_of_ranks(tmp_path: Path) -> None:
    (tmp_path / "waiting_rank.py").write_text(WAITS)
    environment = {"HOME": str(tmp_path), "PYTHONPATH": f"{tmp_path}"}
    session = LocalSession(Host("localhost", 1), tmp_path, environment)
    with contextlib.closing(session):
        forks = RemoteForks(session, "ours/ranks")
        until(forks.place)
        place = forks.place()
        assert place is not None
        assert Path(place.path).stat().st_mode & 0o077 == 0
        (agent,) = (one for one in psutil.Process().children() if AGENT in one.cmdline())
        (first,) = agent.children()
        first.kill()
        until(lambda: {one.pid for one in agent.children()} - {first.pid})

        rank = through_stub([sys.executable, "-m", "waiting_rank"], place.path, place.stub)
        pipe = {"stdout": subprocess.PIPE, "env": {**os.environ, **environment}}
        with subprocess.Popen(rank, **pipe) as stub:
            stub.stdout.readline()
            (server,) = (one for one in agent.children() if one.pid != first.pid)
            (forked,) = server.children()
            forked.send_signal(signal.SIGKILL)
            until(lambda: forks.hear() or forks.statuses)
            assert forks.statuses == {forked.pid: signal.SIGKILL}
            assert stub.wait(SECONDS) == -signal.SIGKILL

        forks.end()

        until(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE)
        assert agent.is_running()


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([HERE, HERE], ""),
        ([HERE, PLAIN], "node2 has no fork server"),
        ([HERE, None], "node2 did not say"),
        ([HERE, Forks(HERE.path, "/other/fork_stub.py")], "node2 has its home folder"),
    ],
)
def test_ranks_are_forked_where_every_host_can_by_the_same_command(
    answers: Sequence[Forks | None],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(node_forks, "ANSWER_SECONDS", 0.0)
    news = threading.Event()

    found = common_place({f"node{n}": lambda a=a: a for n, a in enumerate(answers, 1)}, news)

    assert found == (PLAIN if words else HERE)
    assert words in caplog.text


@pytest.mark.parametrize("is_open", [True, False])
def test_why_a_node_has_no_fork_server_is_logged_once_if_it_is_there(
    is_open: bool, caplog: pytest.LogCaptureFixture
) -> None:
    session = Talker(f"node-{is_open}", Over(why="KeyError('KeepForks')"))
    forks = RemoteForks(session, "ranks")
    session.is_open = is_open

    assert [forks.hear(), forks.hear(), forks.place()] == [set(), set(), PLAIN]

    said = f"{session.host.address}: KeyError('KeepForks'); its ranks start by themselves."
    assert [one.message for one in caplog.records] == [said] * is_open


def test_a_node_fills_neither_memory_nor_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(node_forks, "MOST_LINES", 2)
    monkeypatch.setattr(node_forks, "MOST_STATUSES", 2)
    said = [
        LogLine("a\nb"),
        *(RankEnded(n, 9) for n in range(1, 6)),
        *(LogLine(str(n)) for n in "cde"),
    ]
    forks = RemoteForks(Talker("node1", *said), "ranks")

    assert forks.hear() == {1, 2, 3, 4, 5}
    assert forks.statuses == {4: 9, 5: 9}
    assert len(caplog.records) == 2
