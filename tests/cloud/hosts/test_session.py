"""The contract of every session with a node: over ssh, and with this machine itself."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cloud.conftest import log_in
from tests.waiting import until
from workbench.cloud.hosts.local_session import LocalSession
from workbench.core.world.remote import RemoteProcess, Session
from workbench.core.world.world import Host
from workbench.errors import MachineError

KINDS = [pytest.param("ssh", marks=pytest.mark.root), "local"]


def new_session(kind: str, request: pytest.FixtureRequest, folder: Path) -> Session:
    if kind == "ssh":
        return log_in(request.getfixturevalue("hosts"))
    return LocalSession(Host("localhost", 1), folder)


@pytest.fixture(params=KINDS)
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    session = new_session(request.param, request, tmp_path)
    with contextlib.closing(session):
        yield session


@pytest.fixture
def place(session: Session) -> str:
    """A folder on the node."""
    return session.run(["mktemp", "-d"]).output.strip()


def lines_of(process: RemoteProcess, count: int) -> list[str]:
    lines: list[str] = []

    def enough() -> bool:
        lines.extend(process.lines())
        return len(lines) >= count

    until(enough, what=f"{count} lines", said=lambda: str(lines))
    return lines


def ended(process: RemoteProcess) -> int:
    until(lambda: process.status is not None, what="end of the process")
    assert process.status is not None
    return process.status


def test_a_command_gives_status_output_and_errors(session):
    done = session.run(["sh", "-c", "cat; echo bad >&2; exit 3"], input="in\n")

    assert (done.status, done.output, done.errors) == (3, "in\n", "bad\n")


def test_what_is_large_or_strange_comes_whole(session):
    done = session.run(["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; cat"], input="ü$'\"\\")

    assert len(done.output) == 3_000_005
    assert done.output.endswith("ü$'\"\\")


def test_words_are_not_read_again_by_a_shell(session):
    words = ["a b", "$HOME", "`id`", "'", '"', "*", "", "; exit 1"]

    said = session.run([sys.executable, "-c", "import sys; print(sys.argv[1:])", *words]).output

    assert said == f"{words}\n"


def test_a_command_without_input_does_not_wait_for_any(session):
    assert session.run(["cat"], seconds=5).status == 0


def test_a_command_that_takes_too_long_is_ended_and_named(session):
    began = time.monotonic()
    with pytest.raises(MachineError, match="sleep"):
        session.run(["sleep", "60.25"], seconds=0.5)

    assert time.monotonic() - began < 5
    until(lambda: session.run(["pgrep", "-f", "^sleep 60.25"]).status == 1, what="end of sleep")


def test_a_process_that_continues_reads_and_writes_lines(session):
    process = session.start(["sh", "-c", "echo ready; while read line; do echo got $line; done"])
    assert lines_of(process, 1) == ["ready"]

    process.write(b"one\ntwo\n")

    assert lines_of(process, 2) == ["got one", "got two"]
    assert process.status is None
    process.end()
    ended(process)


def test_half_a_line_waits_for_its_other_half(session):
    process = session.start(["sh", "-c", "printf half; read line; echo ' whole'; printf last"])
    time.sleep(0.2)
    assert process.lines() == []

    process.write(b"\n")

    assert lines_of(process, 2) == ["half whole", "last"]
    assert ended(process) == 0


def test_a_process_is_ended_by_force_where_it_does_not_obey(session):
    process = session.start(["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done"])
    lines_of(process, 1)

    process.end()
    time.sleep(0.3)
    assert process.status is None
    process.end(force=True)

    assert ended(process) in (-signal.SIGKILL, 128 + signal.SIGKILL)


def test_a_process_takes_what_it_started_with_it(session):
    process = session.start(["sh", "-c", "sleep 61.5 & echo up; wait"])
    lines_of(process, 1)

    process.end(force=True)

    until(lambda: session.run(["pgrep", "-f", "^sleep 61.5"]).status == 1, what="end of sleep")


def test_a_process_that_has_only_begun_can_be_ended(session):
    process = session.start(["sleep", "63.5"])

    process.end()

    assert ended(process) in (-signal.SIGTERM, 128 + signal.SIGTERM)


def test_a_file_is_put_whole_with_its_mode_in_folders_of_the_owner_alone(session, place):
    path = f"{place}/new folder/deep/key"
    session.put(b"\x00secret\xff" * 100_000, path)
    session.put(b"#!/bin/sh\necho ran\n", f"{place}/script", 0o700)

    assert session.run(["stat", "-c", "%a %s", path]).output == "600 800000\n"
    assert session.run(["stat", "-c", "%a", f"{place}/new folder"]).output == "700\n"
    assert session.run(["ls", "-A", f"{place}/new folder/deep"]).output == "key\n"
    assert session.run([f"{place}/script"]).output == "ran\n"


def test_a_file_that_cannot_be_written_is_named_with_the_host(session):
    with pytest.raises(MachineError, match="/proc/none"):
        session.put(b"x", "/proc/none/x")


def test_what_is_closed_ends_what_it_started_and_starts_nothing_more(request, tmp_path, session):
    process = session.start(["sh", "-c", "echo up; exec sleep 62.5"])
    lines_of(process, 1)

    session.close()

    assert not session.is_open
    assert process.status is not None
    with pytest.raises(MachineError):
        session.run(["true"])
    with pytest.raises(MachineError):
        session.start(["true"])
    kind = request.node.callspec.params["session"]
    with contextlib.closing(new_session(kind, request, tmp_path)) as other:
        assert other.run(["pgrep", "-f", "^sleep 62.5"]).status == 1
