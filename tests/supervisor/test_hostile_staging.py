"""Any answer of a node that receives data is safe; an invalid one is an error with its name."""

from __future__ import annotations

import pytest

from tests.supervisor.agents import Talker
from workbench.core.node.transfer_protocol import line
from workbench.errors import MachineError
from workbench.supervisor.data.source import Source
from workbench.supervisor.data.staging import Sending, fetch

NODE = "10.0.0.66"


@pytest.mark.parametrize(
    "said",
    [
        line("need", [[-1, 0]]),
        line("need", [[7, 0]]),
        line("need", [[0, -1]]),
        line("need", [[0, 10**9]]),
        line("need", [[0, 0]] * 3),
        line("need", [["a", "b"]]),
        line("need"),
        line("need", 3),
        line("need", [[0, 0]]) + line("got", "x"),
        line("need", []) + line("again", [5]),
        line("failed", {"a": 1}),
        line("failed", "x" * 100_000),
    ],
)
def test_what_a_node_asks_for_is_a_file_of_the_data(tmp_path, said):
    (tmp_path / "a").write_bytes(b"1")
    talker = Talker(NODE, *said.splitlines())
    entries = Source(tmp_path).entries()

    with pytest.raises(MachineError, match=f"^{NODE}: ") as refused:
        Sending(talker, tmp_path, entries, "~/there", lambda _: None).send()

    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("values", [[], ["a", 1, 2], [1, 2], [1, 2, None], [float("inf"), 1, 1]])
def test_a_nodes_progress_is_three_numbers(values):
    with pytest.raises(MachineError, match=f"^{NODE}: "):
        fetch(Talker(NODE, line("progress", *values)), "s3://b/p", "~/there", lambda _: None)
