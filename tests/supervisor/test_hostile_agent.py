"""No message of a node's agent writes outside of the runs' folders, or ends another's run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tests.rehearsal.hosts import until
from tests.supervisor.agents import Said, Talker, build_piece
from tests.supervisor.data.test_outputs import RUN, files, sessions, store, write
from workbench.core.node.agent_protocol import (
    FetchProgress,
    FileKept,
    Flushed,
    KeyWanted,
    OutputSent,
    Piece,
)
from workbench.node.stream import Call
from workbench.supervisor.data.outputs import Outputs

BAD, GOOD = "10.0.0.66", "10.0.0.4"
BYTES = b"written by a node"
OTHER = "261121-120000-zzzz"
__all__ = ["store"]


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

    until(lambda: BAD in outputs.message or files(outside), "a sentence, or the damage")

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

    until(lambda: kept() == 2, "an answer to both files")

    assert files(outside) == {}
    outputs.close(0.0)


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_ends_that_nodes_stream_and_no_others(tmp_path, store, what):
    outputs, far = begun(tmp_path, Talker(BAD, *GARBAGE[what]), GOOD)
    write(tmp_path / GOOD / outputs.place(RUN, [*far])[2:], model=b"1")
    until(lambda: BAD in outputs.message, "the sentence about the node")

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
    until(lambda: "OverflowError" in outputs.message, "the sentence about the node")

    outputs.flush(far[GOOD], 20.0)

    assert files(tmp_path / "results" / "c" / RUN)["model"] == b"1"
    outputs.close(0.0)
    far[GOOD].close()


def test_a_node_that_names_more_files_than_are_kept_is_not_heard(tmp_path, store, monkeypatch):
    monkeypatch.setattr("workbench.supervisor.data.outputs.MOST_NAMES_NBYTES", 20_000)
    names = [f"{number}" + "x" * 200 for number in range(1_000)]
    outputs, _ = begun(tmp_path, Talker(BAD, *(KeyWanted(RUN, name.encode()) for name in names)))

    until(lambda: BAD in outputs.message, "the sentence about the node")

    assert "MB of their names" in outputs.message
    assert sum(map(len, outputs._kept[RUN].owners)) < 21_000
    outputs.close(0.0)


def test_a_node_that_says_garbage_again_and_again_is_given_up_and_its_run_ends(tmp_path, store):
    bad = Talker(BAD, Flushed(1), b"noise")
    outputs, far = begun(tmp_path, bad, GOOD, again=0.05)
    write(tmp_path / GOOD / outputs.place(RUN, [*far])[2:], model=b"1")
    outputs.end(RUN)

    until(lambda: not outputs._kept, "the end of the run's output")

    assert len(bad.started) == 3
    assert files(tmp_path / "results" / "c" / RUN).keys() == {"model", "log.txt", "points.jsonl"}
    outputs.close()
    far[GOOD].close()
