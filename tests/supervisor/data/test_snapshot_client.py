"""What a node says of its snapshots is checked; nonsense is an error of that node alone."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tests.supervisor.agents import Over, Said, Talker
from workbench.core.node.agent_protocol import (
    ListSnapshots,
    Manifest,
    Piece,
    ReceiveSnapshot,
    SendSnapshot,
    Trouble,
    encode_path,
)
from workbench.core.recovery.snapshots import SnapshotFile, SnapshotManifest, encode_manifest
from workbench.errors import MachineError
from workbench.node.stream import StreamLost
from workbench.supervisor.data import snapshot_client
from workbench.supervisor.data.snapshot_client import SnapshotClient, transfer

RUN = "261121-120000-abcd"
SAVED = SnapshotManifest(
    RUN, 1, 1, 1, 9, 0.5, 2, final=False, files=(SnapshotFile("trainer.npz", 4, 7),)
)
TEXT = encode_manifest(SAVED)


def client(*said: Said, to: type = object) -> tuple[SnapshotClient, Talker]:
    session = Talker("10.0.0.4", *said, to=to)
    return SnapshotClient("10.0.0.4", session, lambda nbytes: None), session


def test_manifests_are_read_and_those_of_other_runs_left_out() -> None:
    other = Manifest(TEXT.replace(RUN, "261121-120000-wxyz"))
    node, _ = client(Manifest(TEXT), other, Over())

    assert node.manifests(RUN, "folder") == [SAVED]


@pytest.mark.parametrize(
    "said",
    [
        [b"noise"],
        [Trouble("x"), Over()],
        [Manifest("{}"), Over()],
        [Manifest("[" * 5_000), Over()],
        [Manifest(json.dumps({**json.loads(TEXT), "attempt": "../x"})), Over()],
        [Manifest(TEXT.replace("trainer.npz", "../../x")), Over()],
        [Manifest(TEXT)] * 4,
    ],
)
def test_nonsense_is_an_error_with_the_nodes_name(
    said: Sequence[Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_client, "MOST_MANIFESTS", 3)
    node, _ = client(*said)

    with pytest.raises(MachineError, match=r"^10\.0\.0\.4: "):
        node.manifests(RUN, "folder")


def test_why_a_node_could_not_is_passed_on() -> None:
    node, session = client(Over(why="the disk is full"))

    with pytest.raises(MachineError, match=r"10\.0\.0\.4: the disk is full"):
        node.ask(ListSnapshots(RUN, encode_path("folder")))

    assert session.started[0].status is None


def test_a_node_that_does_not_answer_is_given_up() -> None:
    node, session = client()

    with pytest.raises(StreamLost, match="did not answer"):
        node.ask(ListSnapshots(RUN, encode_path("folder")), seconds=0.01)

    assert session.started[0].calls == {}


def test_a_node_that_sends_more_than_there_is_is_cut_off() -> None:
    source, there = client(*[Piece(b"trainer.npz", b"1234")] * 2, to=SendSnapshot)
    target, here = client()

    with pytest.raises(MachineError, match="it sent more than there is"):
        transfer(SAVED, source, "there", target, "here", share=1.0)

    assert there.started[0].calls == here.started[0].calls == {}
    assert [type(one) for one in here.heard] == [ReceiveSnapshot, Piece]


def test_a_target_that_cannot_keep_a_snapshot_says_why() -> None:
    source, _ = client(Piece(b"trainer.npz", b"1234"), Over(), to=SendSnapshot)
    target, _ = client(Over(why="the disk is full"))

    with pytest.raises(MachineError, match="the disk is full"):
        transfer(SAVED, source, "there", target, "here", share=1.0)
