"""What another host's agent sends is kept if asked for; a process's end is waited for."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.supervisor.agents import Over, Said, Talker
from workbench.cluster import node_forks, process_monitor
from workbench.cluster.node_forks import RemoteForks
from workbench.cluster.process_monitor import ProcessEnds, RemoteProcessMonitor
from workbench.core.node.agent_protocol import (
    MOST_TEXT_NBYTES,
    FileEnd,
    Gone,
    KeepForks,
    RankEnded,
    ReadFile,
    Watch,
    WatchProcesses,
    encode_message,
)


class Node:
    """A host whose agent says what a test has it say."""

    def __init__(self) -> None:
        self.session = Talker("10.0.0.9")
        self.monitor = RemoteProcessMonitor(self.session)

    def say(self, *said: Said, to: type = WatchProcesses) -> None:
        self.session.started[-1].say_to(to, *said)
        self.monitor.is_alive(1)


@pytest.fixture
def node() -> Node:
    return Node()


def nbytes_kept(node: Node) -> int:
    return len(repr([*vars(node.monitor).values()]))


def test_the_text_of_a_file_is_its_last_answer_until_the_file_is_removed(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_monitor, "AGAIN_SECONDS", 0.0)
    assert node.monitor.tail("crash") is None
    node.say(Over(FileEnd(b"one")), to=ReadFile)
    assert node.monitor.tail("crash") == "one"
    node.say(Over(FileEnd(b"two")), to=ReadFile)

    assert node.monitor.tail("crash") == "two"
    node.monitor.remove("crash")
    node.say(Over(FileEnd(b"three")), to=ReadFile)
    assert node.monitor.tail("crash") is None


def test_a_text_that_is_longer_than_was_asked_for_is_refused(node: Node) -> None:
    node.monitor.tail("crash")

    node.say(Over(FileEnd(b"x" * (MOST_TEXT_NBYTES + 1))), to=ReadFile)

    assert node.session.started[0].status is not None


def test_why_a_text_cannot_be_read_is_logged_once(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process_monitor, "AGAIN_SECONDS", 0.0)
    for _ in range(3):
        node.monitor.tail("crash")
        node.session.started[-1].say_to(ReadFile, Over(why="KeyError('ReadFile')"))
        node.session.started[-1].calls.clear()

    assert node.monitor.tail("crash") is None
    said = "10.0.0.9: KeyError('ReadFile'); what its ranks wrote last is not read."
    assert [one.message for one in caplog.records] == [said]


def test_the_end_of_a_process_that_is_not_watched_is_dropped(node: Node) -> None:
    node.monitor.watch([7])
    before = nbytes_kept(node)

    node.say(*(Gone(tuple(range(start, start + 1_000))) for start in range(100, 50_000, 1_000)))

    assert nbytes_kept(node) == before
    assert node.monitor.is_alive(7)
    node.say(Gone((7, 8)))
    assert not node.monitor.is_alive(7)
    assert node.monitor.is_alive(8)


def test_another_agent_watches_the_processes_of_one_that_ended(node: Node) -> None:
    node.monitor.watch([7, 8])
    node.say(Gone((7,)))

    node.session.started[0].end()

    assert node.monitor.is_alive(8)
    assert [one for one in node.session.started[1].heard if isinstance(one, Watch)] == [Watch((8,))]
    node.say(Gone((8,)))
    assert not node.monitor.is_alive(8)


def test_a_host_whose_agents_all_end_is_lost(node: Node) -> None:
    for _ in range(process_monitor.TRIES + 1):
        assert node.monitor.lost == ""
        node.session.started[-1].end()
        node.monitor.is_alive(7)

    assert "its agent ended" in node.monitor.lost


def test_of_the_ends_of_ranks_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_forks, "MOST_STATUSES", 5)
    ends = [RankEnded(pid, 0) for pid in range(10, 30)]

    forks = RemoteForks(Talker("10.0.0.9", *ends, RankEnded(26, 9)), "ranks")

    assert len(forks.hear()) == 20
    assert [*forks.statuses] == [25, 27, 28, 29, 26]


@pytest.mark.parametrize("status", [200, 4991, 65535])
def test_a_rank_with_a_status_that_cannot_be_has_not_ended(status: int) -> None:
    said = encode_message(RankEnded(1234, 0))[:-1] + b"\xcd" + status.to_bytes(2, "big")

    forks = RemoteForks(Talker("10.0.0.9", said, to=KeepForks), "ranks")

    assert forks.hear() == set()
    assert forks.is_lost


SECONDS = 10.0


class Waited:
    """The descriptors that are waited for."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []
        self.ends = ProcessEnds(self.descriptors.append, self.descriptors.remove)

    def readable(self, seconds: float = SECONDS) -> list[int]:
        """Wait until one can be read."""
        return select.select(self.descriptors, [], [], seconds)[0]


@pytest.fixture
def waited() -> Waited:
    return Waited()


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_the_end_of_a_process_is_noticed_once(waited, process) -> None:
    waited.ends.watch(process.pid)
    waited.ends.watch(process.pid)
    assert len(waited.descriptors) == 1
    assert not waited.ends.take(waited.readable(0))

    process.kill()

    assert waited.ends.take(waited.readable())
    assert not waited.descriptors
    assert not waited.ends.take([])


def test_a_process_whose_end_was_noticed_is_not_watched_again(waited, process) -> None:
    """A zombie's descriptor can be read forever, and would end each wait."""
    waited.ends.watch(process.pid)
    process.kill()
    waited.ends.take(waited.readable())

    waited.ends.watch(process.pid)

    assert not waited.descriptors


def test_a_process_that_is_forgotten_leaves_no_descriptor(waited, process) -> None:
    before = os.listdir("/proc/self/fd")
    waited.ends.watch(process.pid)

    waited.ends.forget(process.pid)

    assert not waited.descriptors
    assert waited.ends.take([])
    assert not waited.ends.take([])
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_no_process_is_no_end(waited) -> None:
    waited.ends.watch(2**22 + 1)

    assert not waited.descriptors
