"""Messages are gathered for one turn, as long as no user waits for one of them."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from tests.simulation.thread_cluster import ThreadCluster
from workbench.core.moment import Moment
from workbench.core.run.rank_protocol import Batch, Delivery, Ending, Pulse
from workbench.store import Store
from workbench.supervisor.heartbeat import read_clocks
from workbench.supervisor.rank_messages import RankMessages, is_urgent

RUN = "251231-235959-ab2c"


class Queued(ThreadCluster):
    """A cluster whose messages come one after the other."""

    def __init__(self, *messages: Batch | Pulse) -> None:
        super().__init__()
        self.left = [Delivery(1, message) for message in messages]
        self.waits: list[float] = []

    def receive(self, seconds: float) -> list[Delivery]:
        """Return the next message."""
        self.waits.append(seconds)
        return [self.left.pop(0)] if self.left else []


def batch(rank: int, sequence: int = 7, ending: Ending | None = None) -> Batch:
    return Batch(RUN, rank, sequence, (), (), None, ending)


@pytest.fixture
def mail_of(tmp_path: Path):
    with Store(tmp_path / "store.sqlite3") as store:
        yield lambda cluster: RankMessages(store, cluster, read_clocks)


def test_the_messages_of_all_ranks_are_one_turn(mail_of) -> None:
    cluster = Queued(batch(0), Pulse(RUN, 0, 9), batch(1), Pulse(RUN, 1, 9))

    messages = mail_of(cluster).gather(0.5, active=True, calm=True)

    assert len(messages) == 4
    assert cluster.waits[0] == 0.5


def test_an_answer_is_awaited_while_a_run_ends(mail_of) -> None:
    cluster = Queued(Pulse(RUN, 0, 9), batch(0))

    messages = mail_of(cluster).gather(0.15, active=True)

    assert len(messages) == 1
    assert cluster.waits == [0.1]


def test_a_wait_ended_by_another_descriptor_is_not_repeated(mail_of) -> None:
    """Else the descriptor that ended it would keep the processor busy."""
    cluster = Queued(batch(0))

    mail_of(cluster).gather(0.5, active=True, calm=True)

    assert len(cluster.waits) == 2


def test_messages_without_end_hold_no_turn_back(tmp_path) -> None:
    cluster, ticks = Queued(*[batch(0)] * 20), count()

    def now() -> Moment:
        return Moment(0.0, 0.01 * next(ticks))

    with Store(tmp_path / "own.sqlite3") as store:
        messages = RankMessages(store, cluster, now).gather(0.5, active=True, calm=True)

    assert len(messages) == 3


@pytest.mark.parametrize(
    ("message", "calm", "urgent"),
    [
        (batch(0), True, False),
        (batch(0, sequence=1), True, True),
        (batch(0, ending=Ending("finished", 9)), True, True),
        (Pulse(RUN, 0, 9), True, False),
        (Pulse(RUN, 0, 9), False, True),
        (Pulse(RUN, 0, 9, left=True), True, True),
    ],
)
def test_a_first_batch_an_end_and_an_answer_are_urgent(message, calm, urgent) -> None:
    assert is_urgent(message, calm=calm) is urgent
