"""Each way in which a node is lost, once, on real hosts over real ssh; `make chaos` mixes them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.chaos.nodes import ENVIRONMENT, Nodes
from tests.chaos.play import Play
from tests.chaos.tally import Tally
from tests.rehearsal.conftest import possible
from workbench.store import Store

__all__ = ["possible"]
pytestmark = [
    pytest.mark.root, pytest.mark.mpi, pytest.mark.weekly, pytest.mark.timeout(600),
]  # fmt: skip
LOSSES = (
    "kill_rank", "silent_node", "reset_connections", "sshd_gone", "sshd_restarted", "terminated",
    "notice", "notice_then_silence", "two_nodes", "silence_during_a_hand_over",
    "notice_during_a_hand_over", "replacement_dies", "flapping_node", "locked_store",
    "kill_supervisor", "kill_supervisor_and_node", "kill_fork_server",
)  # fmt: skip


@pytest.fixture(scope="module")
def play(possible: None) -> Iterator[Play]:
    """Give a play on three spot nodes, at whose end no instance may be left."""
    before = {name: os.environ.get(name) for name in (*ENVIRONMENT, "AWS_ENDPOINT_URL")}
    try:
        # Not in /tmp, which hosts have of their own.
        with (
            tempfile.TemporaryDirectory(prefix="wb-chaos-", dir="/run") as folder,
            Nodes() as there,
            Store() as store,
        ):
            with there.cluster(store):
                yield Play(store, Path(folder), Random(1), print, stage=there)
            assert there.left() == []
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ |= {name: value} if value is not None else {}


@pytest.mark.parametrize("loss", LOSSES)
def test_no_run_and_no_example_is_lost(play: Play, loss: str) -> None:
    play.tally = Tally()

    play.go(1, [loss])

    assert play.tally.is_well, str(play.tally)
    assert play.tally.played == {loss: 1}
