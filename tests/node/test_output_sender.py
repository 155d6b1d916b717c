"""Output files are sent once complete, again after a change, and all of them at the end."""

from __future__ import annotations

import contextlib
import os
from hashlib import sha256
from pathlib import Path

import pytest

from workbench.cloud.hosts.local_session import LocalSession
from workbench.cluster.node_agent import agent_of
from workbench.core.node.agent_protocol import (
    AgentMessage,
    FileKept,
    KeyGiven,
    KeyWanted,
    LogAdded,
    OutputBegun,
    OutputOver,
    OutputSent,
    Piece,
    SendOutputs,
    Trouble,
)
from workbench.core.node.output_files import MOST_SECONDS, QUIET_SECONDS
from workbench.core.world.world import Host
from workbench.errors import MachineError
from workbench.node.output_sender import OWN, OutputSender

RUN_ID = "261121-120000-abcd"


class Shelf:
    """Takes files, or does not."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.writes: list[str] = []
        self.trouble = ""

    def send(self, run, path, key, file):
        if self.trouble:
            raise MachineError(self.trouble)
        self.files[key] = file.read()
        self.writes.append(key)
        return True


class Stage:
    """An agent in a home of its own, who is given every key it asks for."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "out"
        self.folder.mkdir()
        self.shelf = Shelf()
        self.said: list[AgentMessage] = []
        self.now = 1000.0
        self.begin()

    def begin(self) -> None:
        self.agent = OutputSender(self.shelf, self._hear, self.home, is_bucket=True)
        self.agent.take(OutputBegun(RUN_ID, str(self.folder).encode()))

    def _hear(self, message: AgentMessage) -> None:
        self.said.append(message)
        if isinstance(message, KeyWanted):
            self.agent.take(KeyGiven(message.run, message.path, message.path))

    def pass_by(self, seconds: float) -> None:
        """Let so much time pass, with a look each half second."""
        for _ in range(int(seconds * 2)):
            self.now += 0.5
            self.agent.turn(self.now)

    def of(self, kind: type) -> list[AgentMessage]:
        return [said for said in self.said if isinstance(said, kind)]


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path)


def test_a_file_goes_once_it_is_quiet_and_again_when_it_changed(stage):
    (stage.folder / "model").write_bytes(b"1")
    stage.pass_by(QUIET_SECONDS / 2)
    assert stage.shelf.files == {}

    stage.pass_by(2 * QUIET_SECONDS)
    assert stage.shelf.files == {"model": b"1"}

    (stage.folder / "model").write_bytes(b"22")
    stage.pass_by(2 * QUIET_SECONDS)
    stage.pass_by(10)

    assert stage.shelf.files == {"model": b"22"}
    assert stage.shelf.writes == ["model", "model"]


def test_a_file_that_never_rests_goes_periodically(stage):
    for second in range(int(MOST_SECONDS) + 5):
        (stage.folder / "log").write_bytes(b"x" * (second + 1))
        stage.pass_by(1)

    assert len(stage.shelf.writes) == 1


def test_at_the_runs_end_all_goes_at_once_and_nothing_of_ours_stays(stage):
    (stage.folder / "deep").mkdir()
    (stage.folder / "deep" / "a").write_bytes(b"1")
    stage.agent.take(OutputOver(RUN_ID))

    stage.pass_by(1.5)

    assert stage.shelf.files == {"deep/a": b"1"}
    assert stage.of(OutputSent) == [OutputSent(RUN_ID)]
    assert not (stage.home / OWN).exists()
    assert (stage.folder / "deep" / "a").exists()


def test_a_folder_in_which_nothing_was_left_is_removed(stage):
    stage.agent.take(OutputOver(RUN_ID))

    stage.pass_by(1)

    assert stage.of(OutputSent) == [OutputSent(RUN_ID)]
    assert not stage.folder.exists()


def test_what_could_not_be_sent_is_reported_and_tried_again(stage):
    (stage.folder / "a").write_bytes(b"1")
    stage.shelf.trouble = "There is nothing called s3://b"
    stage.agent.take(OutputOver(RUN_ID))
    stage.pass_by(1.5)
    assert stage.of(Trouble) == [
        Trouble("There is nothing called s3://b; the next attempt is in 1 s")
    ]
    assert stage.of(OutputSent) == []

    stage.shelf.trouble = ""
    stage.pass_by(5)

    assert stage.shelf.files == {"a": b"1"}
    assert stage.of(Trouble)[-1] == Trouble("")
    assert stage.of(OutputSent) == [OutputSent(RUN_ID)]


def test_an_agent_that_starts_again_sends_nothing_twice(stage):
    (stage.folder / "a").write_bytes(b"1")
    stage.pass_by(2 * QUIET_SECONDS)
    (stage.folder / "b").write_bytes(b"2")

    stage.begin()
    stage.pass_by(2 * QUIET_SECONDS)

    assert stage.shelf.writes == ["a", "b"]


def test_the_log_is_added_to_the_run_beside_a_file_of_its_name(stage):
    (stage.folder / "log.txt").write_bytes(b"a rank's")
    stage.agent.take(LogAdded(RUN_ID, "log.txt", 0, b"0 | one\n"))
    stage.agent.take(LogAdded(RUN_ID, "log.txt", 8, b"0 | two\n"))
    stage.agent.take(KeyGiven(RUN_ID, b"log.txt", b"10.0.0.4/log.txt"))
    stage.agent.take(OutputOver(RUN_ID))

    stage.pass_by(2)

    assert stage.shelf.files == {
        "log.txt": b"0 | one\n0 | two\n",
        "10.0.0.4/log.txt": b"a rank's",
    }


def test_links_and_pipes_are_left_where_they_are(stage):
    (stage.folder / "link").symlink_to("/etc/passwd")
    os.mkfifo(stage.folder / "pipe")
    stage.agent.take(OutputOver(RUN_ID))

    stage.pass_by(2)

    assert stage.shelf.files == {}
    assert stage.of(OutputSent) == [OutputSent(RUN_ID)]


def test_the_agent_sends_files_to_the_supervisor(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_bytes(b"12345")
    session = LocalSession(Host("localhost", 1), tmp_path, {"HOME": str(tmp_path)})
    with contextlib.closing(session):
        call = agent_of(session).call(SendOutputs())
        call.post(OutputBegun(RUN_ID, b"~/out"))
        call.post(OutputOver(RUN_ID))
        said = call.messages(60.0)

        assert next(said) == Piece(b"a", b"12345", 0, sha256(b"12345").hexdigest(), RUN_ID)
        call.post(FileKept(RUN_ID, b"a"))
        assert next(said) == OutputSent(RUN_ID)
