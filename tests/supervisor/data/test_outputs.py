"""Runs' files, logs and points are collected in their destination, and nowhere else."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tests.supervisor.agents import Said, Talker, build_piece
from tests.waiting import until
from workbench.cloud.hosts.local_session import LocalSession
from workbench.core.node.agent_protocol import (
    FetchProgress,
    FileKept,
    Flushed,
    KeyWanted,
    OutputSent,
    Piece,
)
from workbench.core.run.model import RunKind, RunWish
from workbench.core.run.rank_protocol import Batch, Chunk, Sample
from workbench.core.world.world import Host
from workbench.node.stream import Call
from workbench.store import Store
from workbench.store.paths import run_directory
from workbench.supervisor.data.outputs import Outputs

RUN = "261121-120000-abcd"


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Give the store of a home of the test's own, with a run that printed and reported."""
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    (tmp_path / "person").mkdir()
    with Store() as store:
        store.wish_run(RunWish(RUN, "a run", RunKind.CELL, "pass", created=time.time()))
        said = (Chunk("stdout", 1.0, "hello\nwor"),)
        store.reports.add_batches([Batch(RUN, 0, 1, (Sample("loss", 1, 2.0, 0.5),), said)])
        yield store


class Far(LocalSession):
    """A session with another machine, though it is this one."""


def sessions(tmp_path: Path, *addresses: str) -> dict[str, Far]:
    found = {}
    for address in addresses:
        home = tmp_path / address
        home.mkdir(exist_ok=True)
        found[address] = Far(Host(address, 1), home, {"HOME": str(home)})
    return found


def opened(far: dict[str, Far], folder: Path) -> Outputs:
    outputs = Outputs("c", lambda host: far.get(host.address), folder)
    outputs.open()
    return outputs


def write(folder: Path, **files: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_files_of_several_nodes_come_back_with_log_and_points(tmp_path, store):
    far = sessions(tmp_path, "10.0.0.4", "10.0.0.10")
    outputs = opened(far, tmp_path)
    outputs.begin(RUN, [*far], str(tmp_path / "results"))
    place = outputs.place(RUN, [*far])
    assert place == f"~/workbench-output/c/{RUN}"
    big = bytes(range(256)) * 40_000
    for number, address in enumerate(far):
        write(tmp_path / address / place[2:], **{f"rank-{number}": big, "model": b"%d" % number})

    outputs.end(RUN)
    until(lambda: not outputs._kept, what="the end of the run's output")

    found = files(tmp_path / "results" / "c" / RUN)
    assert found.pop("log.txt") == b"0 | hello\n0 | wor\n"
    assert b'"name": "loss", "value": 0.5' in found.pop("points.jsonl")
    assert (found.pop("rank-0"), found.pop("rank-1")) == (big, big)
    plain = found.pop("model")
    ((other, content),) = found.items()
    assert {plain, content} == {b"0", b"1"}
    assert other in ("10.0.0.4/model", "10.0.0.10/model")
    assert outputs.message == ""
    outputs.close()
    for session in far.values():
        session.close()


def test_what_runs_on_this_machine_leaves_its_files_in_the_runs_folder(tmp_path, store):
    outputs = opened({}, tmp_path)
    outputs.begin(RUN, ["here-1", "here-2"], str(tmp_path / "results"))
    assert outputs.place(RUN, ["here-1", "here-2"]) == str(run_directory(RUN) / "output")
    write(run_directory(RUN) / "output", model=b"1")

    outputs.end(RUN)
    outputs.close()

    assert files(tmp_path / "results" / "c" / RUN)["model"] == b"1"


def test_without_a_destination_nothing_is_started(tmp_path, store):
    outputs = opened({}, tmp_path)

    outputs.begin(RUN, ["here"], "")
    outputs.end(RUN)
    outputs.close()

    assert outputs._thread is None


def test_a_node_that_is_to_go_has_sent_all_it_has_before(tmp_path, store):
    far = sessions(tmp_path, "10.0.0.4")
    outputs = opened(far, tmp_path)
    outputs.begin(RUN, [*far], str(tmp_path / "results"))
    until(lambda: outputs._agents, what="the agent")
    write(tmp_path / "10.0.0.4" / outputs.place(RUN, [*far])[2:], model=b"1")

    outputs.flush(far["10.0.0.4"], 20.0)

    assert files(tmp_path / "results" / "c" / RUN)["model"] == b"1"
    outputs.close(0.0)
    far["10.0.0.4"].close()


def test_a_session_that_was_lost_loses_no_file(tmp_path, store):
    far = sessions(tmp_path, "10.0.0.4")
    outputs = opened(far, tmp_path)
    outputs.begin(RUN, [*far], str(tmp_path / "results"))
    folder = tmp_path / "10.0.0.4" / outputs.place(RUN, [*far])[2:]
    until(lambda: outputs._agents, what="the agent")
    write(folder, before=b"1")
    far["10.0.0.4"].close()
    write(folder, after=b"2")

    far |= sessions(tmp_path, "10.0.0.4")
    outputs.end(RUN)
    until(lambda: not outputs._kept, what="the end of the run's output", seconds=30.0)

    found = files(tmp_path / "results" / "c" / RUN)
    assert (found["before"], found["after"]) == (b"1", b"2")
    outputs.close()
    far["10.0.0.4"].close()


def test_a_supervisor_that_starts_again_continues_with_what_was_not_sent(tmp_path, store):
    far = sessions(tmp_path, "10.0.0.4")
    before = opened(far, tmp_path)
    before.begin(RUN, [*far], str(tmp_path / "results"))
    write(tmp_path / "10.0.0.4" / before.place(RUN, [*far])[2:], model=b"1")
    text = (tmp_path / "outputs.json").read_text()
    before.close(0.0)
    far["10.0.0.4"].close()
    (tmp_path / "outputs.json").write_text(text)  # it was killed, and had no time to tidy up
    far |= sessions(tmp_path, "10.0.0.4")

    outputs = opened(far, tmp_path)
    until(lambda: not outputs._kept, what="the end of the run's output")

    assert files(tmp_path / "results" / "c" / RUN).keys() == {"model", "log.txt", "points.jsonl"}
    outputs.close()
    far["10.0.0.4"].close()


def test_a_run_that_continues_under_a_new_supervisor_is_not_taken_for_over(tmp_path, store):
    far = sessions(tmp_path, "10.0.0.4")
    outputs = Outputs("c", lambda host: far.get(host.address), tmp_path)
    outputs.begin(RUN, [*far], str(tmp_path / "results"))  # it died right after that
    place = outputs.place(RUN, [*far])

    successor = Outputs("c", lambda host: None, tmp_path)  # no session is open yet
    successor.begin(RUN, [*far], str(tmp_path / "results"))
    successor._reach = lambda host: far.get(host.address)
    successor.open()
    until(lambda: successor._agents, what="the agent", seconds=30.0)
    write(tmp_path / "10.0.0.4" / place[2:], late=b"1")
    successor.end(RUN)
    until(lambda: not successor._kept, what="the end of the run's output")

    assert successor.place(RUN, [*far]) == place
    assert files(tmp_path / "results" / "c" / RUN).keys() == {"late", "log.txt", "points.jsonl"}
    successor.close()
    far["10.0.0.4"].close()


def test_what_came_from_each_node_is_counted(tmp_path, store):
    far = sessions(tmp_path, "10.0.0.4", "10.0.0.5")
    outputs = opened(far, tmp_path)
    outputs.begin(RUN, [*far], str(tmp_path / "results"))
    write(tmp_path / "10.0.0.4" / outputs.place(RUN, [*far])[2:], model=bytes(3_000_000))

    outputs.end(RUN)
    until(lambda: not outputs._kept, what="the end of the run's output")
    received = outputs.take_received()

    assert received == {"10.0.0.4": 3_000_000}
    assert outputs.take_received() == {}
    outputs.close()
    for session in far.values():
        session.close()


def test_what_comes_from_this_machine_is_not_counted(tmp_path, store):
    outputs = opened({}, tmp_path)
    outputs.begin(RUN, ["here"], str(tmp_path / "results"))
    write(run_directory(RUN) / "output", model=b"1")

    outputs.end(RUN)
    outputs.close()

    assert outputs.take_received() == {}


def test_output_that_cannot_be_written_here_is_reported_and_tried_again(tmp_path, store):
    far = sessions(tmp_path, "10.0.0.4")
    outputs = opened(far, tmp_path)
    (tmp_path / "results" / "c").mkdir(parents=True)
    (tmp_path / "results" / "c" / RUN).write_bytes(b"in the way")
    outputs.begin(RUN, [*far], str(tmp_path / "results"))
    write(tmp_path / "10.0.0.4" / outputs.place(RUN, [*far])[2:], model=b"1")
    outputs.end(RUN)
    said = until(lambda: "next attempt" in outputs.message and outputs.message, what="the trouble")
    assert said.startswith("Output waits on 10.0.0.4: ")

    (tmp_path / "results" / "c" / RUN).unlink()
    until(lambda: not outputs._kept, what="the end of the run's output", seconds=40.0)

    found = files(tmp_path / "results" / "c" / RUN)
    assert found.keys() == {"model", "log.txt", "points.jsonl"}
    assert found["log.txt"] == b"0 | hello\n0 | wor\n"
    outputs.close()
    far["10.0.0.4"].close()


def test_a_run_that_continues_on_other_nodes_is_collected_from_all(tmp_path, store):
    far = sessions(tmp_path, "10.0.0.4", "10.0.0.10")
    outputs = opened(far, tmp_path)
    outputs.begin(RUN, ["10.0.0.4"], str(tmp_path / "results"))
    place = outputs.place(RUN, ["10.0.0.4"])[2:]
    write(tmp_path / "10.0.0.4" / place, before=b"1")

    outputs.begin(RUN, ["10.0.0.10"], str(tmp_path / "results"))
    write(tmp_path / "10.0.0.10" / place, after=b"2")
    outputs.end(RUN)
    until(lambda: not outputs._kept, what="the end of the run's output")

    found = files(tmp_path / "results" / "c" / RUN)
    assert (found["before"], found["after"]) == (b"1", b"2")
    outputs.close()
    for session in far.values():
        session.close()


BAD, GOOD = "10.0.0.66", "10.0.0.4"
BYTES = b"written by a node"
OTHER = "261121-120000-zzzz"


def wire(name: str, *values: object) -> bytes:
    return msgspec.msgpack.encode([name, *values])


GARBAGE: dict[str, Sequence[Said]] = {
    "pieces out of order": [Piece(b"a", b"1", 0, "", RUN), Piece(b"a", b"1", 7, "", RUN)],
    "a number for bytes": [wire("Piece", b"a", 7)],
    "a missing value": [wire("KeyWanted", RUN)],
    "a list as a run": [wire("KeyWanted", [RUN], b"a")],
    "an object as a path": [wire("KeyWanted", RUN, {"a": 1})],
    "a word as a number": [wire("Flushed", "x")],
    "a kind that there is not": [wire("Shutdown", RUN)],
    "a kind that belongs elsewhere": [FetchProgress(1, 2, 3.0)],
    "an unknown run": [build_piece(OTHER, "a", b"1")],
    "a run's end that was not asked for": [OutputSent(RUN)],
    "deep nesting": [b"\x91" * 3_000],
    "noise": [b"noise"] * 5_000,
    "a path that leads out": [KeyWanted(RUN, b"../x")],
    "a name that is longer than any": [wire("KeyWanted", RUN, b"x/" * 3_000 + b"x")],
    "a message that is longer than any": [wire("Trouble", "x" * 2_000_000)],
}


def begun(tmp_path: Path, bad: Talker, *others: str, again: float = 5.0) -> tuple[Outputs, dict]:
    """Return outputs of a run on a bad node and on others."""
    far = {BAD: bad, **sessions(tmp_path, *others)}
    outputs = Outputs("c", lambda host: far.get(host.address), tmp_path, again)
    outputs.open()
    outputs.begin(RUN, [*far], str(tmp_path / "results"))
    return outputs, far


@pytest.mark.parametrize("way", ["climbs", "is absolute", "is another run", "is no run"])
def test_a_node_writes_nothing_outside_its_runs(tmp_path, store, way):
    outside = tmp_path / "outside"
    run = {
        "climbs": (RUN, "../../outside"),
        "is absolute": (RUN, str(outside)),
        "is another run": (OTHER, "file"),
        "is no run": ("../../outside", "file"),
    }[way]
    bad = Talker(BAD, build_piece(*run, BYTES))
    outputs, _ = begun(tmp_path, bad)

    until(lambda: BAD in outputs.message or files(outside), what="a sentence, or the damage")

    assert files(outside) == {}
    assert files(tmp_path / "results").keys() <= {f"c/{RUN}/log.txt", f"c/{RUN}/points.jsonl"}
    assert not [one for one in bad.heard if isinstance(one, FileKept)]
    outputs.close(0.0)


@pytest.mark.parametrize("link", ["folder/there", "model", "."])
def test_no_link_leads_a_nodes_file_elsewhere(tmp_path, store, link):
    outside = tmp_path / "outside"
    outside.mkdir()
    top = tmp_path / "results" / "c" / RUN
    (top / link).parent.mkdir(parents=True)
    (top / link).symlink_to(outside)
    bad = Talker(BAD, build_piece(RUN, "folder/there/x", BYTES), build_piece(RUN, "model", BYTES))
    outputs, _ = begun(tmp_path, bad)

    def kept() -> int:
        return len([one for one in bad.heard if isinstance(one, FileKept)])

    until(lambda: kept() == 2, what="an answer to both files")

    assert files(outside) == {}
    outputs.close(0.0)


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_ends_that_nodes_stream_and_no_others(tmp_path, store, what):
    outputs, far = begun(tmp_path, Talker(BAD, *GARBAGE[what]), GOOD)
    write(tmp_path / GOOD / outputs.place(RUN, [*far])[2:], model=b"1")
    until(lambda: BAD in outputs.message, what="the sentence about the node")

    began = time.monotonic()
    outputs.flush(far[GOOD], 20.0)

    assert time.monotonic() - began < 15.0
    found = files(tmp_path / "results" / "c" / RUN)
    assert found["model"] == b"1"
    assert not [name for name in found if name.endswith(".coming")]
    assert outputs.message.startswith(f"Output waits on {BAD}: ")
    assert len(outputs.message) < 400
    outputs.close(0.0)
    far[GOOD].close()


def test_an_unexpected_error_stays_with_its_node(tmp_path, store, monkeypatch):
    bad = Talker(BAD)

    take = Call.take

    def fail(self):
        if self in [agent.call for agent in outputs._agents.values() if agent.address == BAD]:
            raise OverflowError("whatever a node may cause")
        return take(self)

    monkeypatch.setattr(Call, "take", fail)
    outputs, far = begun(tmp_path, bad, GOOD)
    write(tmp_path / GOOD / outputs.place(RUN, [*far])[2:], model=b"1")
    until(lambda: "OverflowError" in outputs.message, what="the sentence about the node")

    outputs.flush(far[GOOD], 20.0)

    assert files(tmp_path / "results" / "c" / RUN)["model"] == b"1"
    outputs.close(0.0)
    far[GOOD].close()


def test_a_node_that_names_more_files_than_are_kept_is_not_heard(tmp_path, store, monkeypatch):
    monkeypatch.setattr("workbench.supervisor.data.outputs.MOST_NAMES_NBYTES", 20_000)
    names = [f"{number}" + "x" * 200 for number in range(1_000)]
    outputs, _ = begun(tmp_path, Talker(BAD, *(KeyWanted(RUN, name.encode()) for name in names)))

    until(lambda: BAD in outputs.message, what="the sentence about the node")

    assert "MB of their names" in outputs.message
    assert sum(map(len, outputs._kept[RUN].owners)) < 21_000
    outputs.close(0.0)


def test_a_node_that_says_garbage_again_and_again_is_given_up_and_its_run_ends(tmp_path, store):
    bad = Talker(BAD, Flushed(1), b"noise")
    outputs, far = begun(tmp_path, bad, GOOD, again=0.05)
    write(tmp_path / GOOD / outputs.place(RUN, [*far])[2:], model=b"1")
    outputs.end(RUN)

    until(lambda: not outputs._kept, what="the end of the run's output")

    assert len(bad.started) == 3
    assert files(tmp_path / "results" / "c" / RUN).keys() == {"model", "log.txt", "points.jsonl"}
    outputs.close()
    far[GOOD].close()
