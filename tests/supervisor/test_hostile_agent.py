"""No message of a node's agent writes outside of the runs' folders, or ends another's run."""

from __future__ import annotations

import time
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from tests.rehearsal.hosts import until
from tests.supervisor.agents import Script, Talker, sent
from tests.supervisor.data.test_outputs import RUN, files, sessions, store, write
from workbench.core.node.transfer_protocol import line
from workbench.supervisor.data.outputs import Outputs

BAD, GOOD = "10.0.0.66", "10.0.0.4"
BYTES = b"written by a node"
PIECE, DIGEST = b64encode(BYTES).decode(), sha256(BYTES).hexdigest()
__all__ = ["store"]

GARBAGE = {
    "no base64": [line("file", RUN, "a"), line("piece", "\N{BULLET}=x")],
    "a number for text": [line("file", RUN, "a"), line("piece", 7)],
    "a missing value": [line("claim", RUN)],
    "a list as a run": [line("file", [RUN], "a")],
    "an object as a path": [line("file", RUN, {"a": 1})],
    "a word as a number": [line("flushed", "x")],
    "a kind that there is not": [line("shutdown", RUN)],
    "an unknown run": [line("file", "261121-120000-zzzz", "a")],
    "a run's end that was not asked for": [line("ended", RUN)],
    "deep nesting": ["[" * 3000] * 1001,
    "noise": ["noise"] * 5000,
    "a name that is longer than any": [line("claim", RUN, "x/" * 3_000 + "x")],
    "a name of more bytes than any": [line("claim", RUN, "ä" * 2_049)],
}


def begun(tmp_path: Path, bad: Talker, *others: str, again: float = 5.0) -> tuple[Outputs, dict]:
    """Return outputs of a run on a bad node and on others."""
    far = {BAD: bad, **sessions(tmp_path, *others)}
    outputs = Outputs("c", lambda host: far.get(host.address), tmp_path, again)
    outputs.open()
    outputs.begin(RUN, [*far], str(tmp_path / "results"))
    return outputs, far


@pytest.mark.parametrize("way", ["climbs", "is absolute", "is another run"])
def test_a_node_writes_nothing_outside_its_runs(tmp_path, store, way):
    outside = tmp_path / "outside"
    run = {
        "climbs": "../../outside",
        "is absolute": str(outside),
        "is another run": "261121-120000-zzzz",
    }[way]
    bad = Talker(BAD, *sent(run, "file", PIECE, DIGEST))
    outputs, _ = begun(tmp_path, bad)

    until(lambda: BAD in outputs.message or files(outside), "a sentence, or the damage")

    assert files(outside) == {}
    assert files(tmp_path / "results").keys() <= {f"c/{RUN}/log.txt", f"c/{RUN}/points.jsonl"}
    assert '"kept"' not in "".join(bad.heard)
    outputs.close(0.0)


@pytest.mark.parametrize("link", ["folder/there", "model", "."])
def test_no_link_leads_a_nodes_file_elsewhere(tmp_path, store, link):
    outside = tmp_path / "outside"
    outside.mkdir()
    top = tmp_path / "results" / "c" / RUN
    (top / link).parent.mkdir(parents=True)
    (top / link).symlink_to(outside)
    bad = Talker(
        BAD, *sent(RUN, "folder/there/x", PIECE, DIGEST), *sent(RUN, "model", PIECE, DIGEST)
    )
    outputs, _ = begun(tmp_path, bad)

    until(lambda: "".join(bad.heard).count('"kept"') == 2, "an answer to both files")

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

    def lines(self):
        raise OverflowError("whatever a node may cause")

    monkeypatch.setattr(Script, "lines", lines)
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
    outputs, _ = begun(tmp_path, Talker(BAD, *(line("claim", RUN, name) for name in names)))

    until(lambda: BAD in outputs.message, "the sentence about the node")

    assert "MB of their names" in outputs.message
    assert sum(map(len, outputs._kept[RUN].owners)) < 21_000
    outputs.close(0.0)


def test_a_node_that_says_garbage_again_and_again_is_given_up_and_its_run_ends(tmp_path, store):
    bad = Talker(BAD, line("file", RUN, "a"), line("piece", 7))
    outputs, far = begun(tmp_path, bad, GOOD, again=0.05)
    write(tmp_path / GOOD / outputs.place(RUN, [*far])[2:], model=b"1")
    outputs.end(RUN)

    until(lambda: not outputs._kept, "the end of the run's output")

    assert len(bad.started) == 3
    assert files(tmp_path / "results" / "c" / RUN).keys() == {"model", "log.txt", "points.jsonl"}
    outputs.close()
    far[GOOD].close()
