"""Any answer of a node that receives data is safe; an invalid one is an error with its name."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from tests.supervisor.agents import Over, Said, Talker
from workbench.core.node.agent_protocol import Damaged, FetchProgress, Needed, Trouble
from workbench.errors import MachineError
from workbench.supervisor.data.source import Source
from workbench.supervisor.data.staging import DataTransfer, fetch

NODE = "10.0.0.66"


def wire(name: str, *values: object) -> bytes:
    return msgspec.msgpack.encode([name, *values])


@pytest.mark.parametrize(
    "said",
    [
        [wire("Needed", [[-1, 0]])],
        [Needed(((7, 0),))],
        [wire("Needed", [[0, -1]])],
        [Needed(((0, 10**9),))],
        [Needed(((0, 0),) * 3)],
        [wire("Needed", [["a", "b"]])],
        [wire("Needed")],
        [wire("Needed", 3)],
        [Needed(((0, 0),)), Needed(()), Damaged((5,))],
        [Needed(((0, 0),)), Needed(()), wire("Damaged", ["x"])],
        [Over(why="x" * 100_000)],
        [b"noise"],
    ],
    ids=str,
)
def test_what_a_node_asks_for_is_a_file_of_the_data(tmp_path, said: Sequence[Said]) -> None:
    (tmp_path / "a").write_bytes(b"1")
    entries = Source(tmp_path).entries()

    with pytest.raises(MachineError, match=f"^{NODE}: ") as refused:
        DataTransfer(Talker(NODE, *said), tmp_path, entries, "~/there", lambda _: None).send()

    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    "said",
    [
        wire("FetchProgress", 1, 2),
        wire("FetchProgress", "a", 1, 2),
        wire("FetchProgress", 1, 2, None),
        FetchProgress(1, 2, float("inf")),
        FetchProgress(-1, 2, 1.0),
    ],
    ids=str,
)
def test_a_nodes_progress_is_three_numbers(said: Said) -> None:
    with pytest.raises(MachineError, match=f"^{NODE}: "):
        fetch(Talker(NODE, said), "s3://b/p", "~/there", lambda _: None)


def test_unexpected_messages_of_a_node_are_ignored() -> None:
    said: list[str] = []

    fetch(
        Talker(NODE, Trouble("x"), FetchProgress(1, 2, 3.0), Over()), "s3://b/p", "~/a", said.append
    )

    assert said[1:] == ["Data: 1 of 2 B, 50 %, 3 B/s."]
