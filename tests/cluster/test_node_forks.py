"""The fork servers of other hosts: what a keeper reports there, and what is made of it here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

from workbench.cluster import node_forks
from workbench.cluster.launcher import through_stub
from workbench.cluster.node_forks import PLAIN, RemoteForks, common_place
from workbench.core.node.agent_protocol import Event, Forks, LogLine, RankEnded, line_of, read_event
from workbench.core.world.world import Host

HERE = Forks("/run/ranks/forks", "/env/fork_stub.py")
SECONDS = 60.0
WAITS = "import time; print(flush=True); time.sleep(60)"


def until(look: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_keeper_replaces_its_fork_server_reports_ends_and_ends_with_its_input(
    tmp_path: Path,
) -> None:
    (tmp_path / "waiting_rank.py").write_text(WAITS)
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": f"{tmp_path}"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-m", "workbench.cluster.node_forks", "ours/ranks"]
    with subprocess.Popen(command, env=environment, **pipes) as keeper:

        def event(kind: type) -> Event:
            assert keeper.stdout is not None
            return next(e for e in map(read_event, keeper.stdout) if isinstance(e, kind))

        place = event(Forks)
        assert Path(place.path).stat().st_mode & 0o077 == 0
        (first,) = psutil.Process(keeper.pid).children()
        first.kill()
        until(lambda: {p.pid for p in psutil.Process(keeper.pid).children()} - {first.pid})

        rank = through_stub([sys.executable, "-m", "waiting_rank"], place.path, place.stub)
        with subprocess.Popen(rank, env=environment, stdout=subprocess.PIPE) as stub:
            assert stub.stdout is not None
            stub.stdout.readline()
            (server,) = (p for p in psutil.Process(keeper.pid).children() if p.pid != first.pid)
            (forked,) = server.children()
            forked.send_signal(signal.SIGKILL)
            assert event(RankEnded) == RankEnded(forked.pid, signal.SIGKILL)
            assert stub.wait(SECONDS) == -signal.SIGKILL
        keeper.communicate()

    until(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE)


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

    found = common_place({f"node{n}": lambda a=a: a for n, a in enumerate(answers, 1)})

    assert found == (PLAIN if words else HERE)
    assert words in caplog.text


class TalkingNode:
    """A session with a node, and its keeper, which says what a test wants."""

    host = Host("node1", 1)
    is_open = True
    status = None

    def __init__(self, said: str) -> None:
        self._said = said

    def start(self, command: Sequence[str]) -> TalkingNode:
        return self

    def lines(self) -> list[str]:
        said, self._said = self._said, ""
        return said.splitlines()


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
    forks = RemoteForks(TalkingNode("x\n" + "".join(map(line_of, said))), "ranks")

    assert forks.hear() == {1, 2, 3, 4, 5}
    assert forks.statuses == {4: 9, 5: 9}
    assert len(caplog.records) == 2
