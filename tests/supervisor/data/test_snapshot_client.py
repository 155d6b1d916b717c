"""What a node says of its snapshots is checked; nonsense ends its agent and nothing else."""

from __future__ import annotations

import json

import pytest

from tests.supervisor.agents import Script, Talker
from workbench.core.node.snapshot_protocol import LIST, piece_line
from workbench.core.node.transfer_protocol import line
from workbench.core.recovery.snapshots import SnapshotFile, SnapshotManifest, encode_manifest
from workbench.errors import MachineError
from workbench.supervisor.data.snapshot_client import Broken, SnapshotClient, transfer

RUN = "261121-120000-abcd"
SAVED = SnapshotManifest(
    RUN, 1, 1, 1, 9, 0.5, 2, final=False, files=(SnapshotFile("trainer.npz", 4, 7),)
)


def client(*lines: str) -> tuple[SnapshotClient, Script]:
    session = Talker("10.0.0.4", *lines)
    process = session.start(())
    return SnapshotClient("10.0.0.4", session, process, lambda nbytes: None), process


def test_manifests_are_read_and_those_of_other_runs_left_out() -> None:
    other = encode_manifest(SAVED).replace(RUN, "261121-120000-wxyz")
    node, _ = client("a login prints this", line("answer", 1, [encode_manifest(SAVED), other]))

    assert node.manifests(RUN, "folder") == [SAVED]


@pytest.mark.parametrize(
    "said",
    [
        line("answer", 1, "text"),
        line("answer", 1, [7]),
        line("answer", 1, ["{}"]),
        line("answer", 1, [json.dumps({**json.loads(encode_manifest(SAVED)), "attempt": "../x"})]),
        line("answer", 1, [encode_manifest(SAVED).replace("trainer.npz", "../../x")]),
        line("color", 1),
        line("piece", "trainer.npz", "no base64"),
        line("taken", -1),
    ],
)
def test_an_agent_that_talks_nonsense_is_ended(said) -> None:
    node, process = client(said)

    with pytest.raises(Broken, match=r"^10\.0\.0\.4: "):
        node.manifests(RUN, "folder")

    assert process.status is not None


def test_why_a_node_could_not_is_passed_on() -> None:
    node, process = client(line("failed", 1, "the disk is full"))

    with pytest.raises(MachineError, match="the disk is full"):
        node.ask(LIST, RUN, "folder")

    assert process.status is None


def test_a_node_that_does_not_answer_is_given_up() -> None:
    node, process = client()

    with pytest.raises(Broken, match="did not answer"):
        node.ask(LIST, RUN, "folder", seconds=0.01)

    assert process.status is not None


def test_a_node_that_sends_more_than_there_is_is_cut_off() -> None:
    source, process = client(*[piece_line("trainer.npz", b"1234")] * 2)
    target, _ = client(line("answer", 1, None))

    with pytest.raises(Broken, match="it sent more than there is"):
        transfer(SAVED, source, "there", target, "here", share=1.0)

    assert process.status is not None
