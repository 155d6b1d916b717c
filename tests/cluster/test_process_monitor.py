"""What another host's agent and keeper send is kept only where it was asked for."""

from __future__ import annotations

import json

import pytest

from tests.supervisor.agents import Script, Talker
from workbench.cluster import node_forks
from workbench.cluster.node_forks import RemoteForks
from workbench.cluster.process_monitor import RemoteProcessMonitor
from workbench.core.node.agent_protocol import MOST_NBYTES, Event, Gone, RankEnded, Text, line_of


class Node:
    """A host whose agent says what a test has it say."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self.monitor = RemoteProcessMonitor(Talker("10.0.0.9"), Script(self._taken))

    def say(self, *events: Event) -> None:
        self._lines += map(line_of, events)
        self.monitor.is_alive(1)

    def _taken(self) -> list[str]:
        lines, self._lines = self._lines, []
        return lines


@pytest.fixture
def node() -> Node:
    return Node()


def nbytes_kept(node: Node) -> int:
    return len(repr([*vars(node.monitor).values()]))


def test_texts_of_files_that_were_not_requested_are_dropped(node: Node) -> None:
    before = nbytes_kept(node)

    node.say(*(Text(f"{number}" + "x" * 4_000, "y" * 50_000) for number in range(100)))

    assert nbytes_kept(node) == before


def test_the_text_of_a_file_is_its_last_answer_until_the_file_is_removed(node: Node) -> None:
    assert node.monitor.tail("crash") is None
    node.say(Text("crash", "one"), Text("crash", "x" * 2 * MOST_NBYTES + "end"))
    found = node.monitor.tail("crash")
    node.monitor.remove("crash")
    before = nbytes_kept(node)
    node.say(Text("crash", "x" * 50_000))

    assert found is not None
    assert found.endswith("end")
    assert len(found) == MOST_NBYTES
    assert nbytes_kept(node) == before


def test_the_end_of_a_process_that_is_not_watched_is_dropped(node: Node) -> None:
    node.monitor.watch([7])
    before = nbytes_kept(node)

    node.say(*(Gone(tuple(range(start, start + 1_000))) for start in range(100, 50_000, 1_000)))

    assert nbytes_kept(node) == before
    assert node.monitor.is_alive(7)
    node.say(Gone((7, 8)))
    assert not node.monitor.is_alive(7)
    assert node.monitor.is_alive(8)


def test_of_the_ends_of_ranks_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_forks, "MOST_STATUSES", 5)
    lines = [line_of(RankEnded(pid, 0)) for pid in range(10, 30)]

    forks = RemoteForks(Talker("10.0.0.9", *lines, line_of(RankEnded(26, 9))), "ranks")

    assert len(forks.hear()) == 20
    assert [*forks.statuses] == [25, 27, 28, 29, 26]


@pytest.mark.parametrize("status", [200, -1, 4991, 65535, 2**40])
def test_a_rank_with_a_status_that_cannot_be_has_not_ended(status: int) -> None:
    said = json.dumps(["RankEnded", {"pid": 1234, "status": status}])

    assert RemoteForks(Talker("10.0.0.9", said), "ranks").hear() == set()
