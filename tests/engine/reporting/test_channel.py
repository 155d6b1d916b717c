"""A rank's channel sends batches to a real router, resends lost ones, and executes commands."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from tests.waiting import until
from workbench.cluster.rank_router import RankRouter
from workbench.core.run.rank_protocol import (
    Acknowledge,
    AskPulse,
    Batch,
    Ending,
    Hello,
    Interrupt,
    Message,
    Pulse,
    SaveSoon,
    StopAt,
)
from workbench.engine.reporting.channel import (
    PULSE_SECONDS,
    Address,
    Channel,
    SupervisorTimeout,
    patience,
)
from workbench.engine.reporting.run_log import UNWATCHED_SECONDS, RunLog

PATIENCE_SECONDS = 10.0


class Rank:
    """A channel, and the calls that it made."""

    def __init__(self, router: RankRouter, number: int = 0) -> None:
        self.stops: list[int] = []
        self.interrupted, self.asked_to_save = threading.Event(), threading.Event()
        self.channel = Channel(
            Address(router.endpoint, router.server_key.encode()),
            generation=3,
            rank=number,
            pulse=lambda run: Pulse(run, number, 7, 2.0, "Barrier", 1.5, 4),
            stop_at=lambda boundary, epoch: self.stops.append(boundary),
            interrupt=self.interrupted.set,
            save=self.asked_to_save.set,
        )
        self.channel.open()


class Supervisor:
    """What a supervisor does with its router: keep what is new, confirm it."""

    def __init__(self, router: RankRouter) -> None:
        self.router = router
        self.heard: list[Message] = []

    def listen(self, enough: Callable[[], bool]) -> None:
        """Receive until it is enough."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not enough():
            assert time.monotonic() < deadline, self.heard
            self.heard += [one.message for one in self.router.receive(0.05)]

    def of(self, kind: type) -> list:
        return [message for message in self.heard if isinstance(message, kind)]

    def send(self, command) -> None:
        self.router.send(3, (0,), command)

    @property
    def sequences(self) -> list[int]:
        return [batch.sequence for batch in self.of(Batch)]

    @property
    def batches(self) -> list[Batch]:
        """Each batch once: unacknowledged ones are sent again."""
        return [*{(batch.run, batch.sequence): batch for batch in self.of(Batch)}.values()]


@pytest.fixture
def opened() -> Iterator[Callable[[RankRouter], RankRouter]]:
    """Open routers that are closed at the end, whatever happens."""
    with contextlib.ExitStack() as boxes:

        def opened(box: RankRouter) -> RankRouter:
            boxes.enter_context(contextlib.closing(box))
            box.open()
            return box

        yield opened


@pytest.fixture
def router(opened: Callable[[RankRouter], RankRouter], tmp_path: Path) -> RankRouter:
    return opened(RankRouter(tmp_path / "rank_router.json"))


@pytest.fixture
def supervisor(router: RankRouter) -> Supervisor:
    return Supervisor(router)


@pytest.fixture
def rank(router: RankRouter, supervisor: Supervisor) -> Iterator[Rank]:
    here = Rank(router)
    with contextlib.closing(here.channel):
        supervisor.listen(lambda: bool(supervisor.of(Hello)))
        yield here


def test_a_rank_says_hello(rank, supervisor) -> None:
    assert supervisor.of(Hello) == [Hello(3, 0)]


def test_a_run_that_began_says_so_though_it_has_nothing_to_tell(rank, supervisor, log) -> None:
    rank.channel.carry(log)

    supervisor.listen(lambda: bool(supervisor.of(Batch)))

    assert supervisor.of(Batch)[0].sequence == 1


def test_all_that_is_sent_arrives_in_order(rank, supervisor, log) -> None:
    rank.channel.carry(log)
    for number in range(300):
        log.add("loss", number, 0.5)
        log.write("stdout", f"{number}\n")
        time.sleep(0.001)
    log.finish(Ending("finished", 300))

    supervisor.listen(lambda: any(batch.ending for batch in supervisor.of(Batch)))

    batches = supervisor.batches
    assert [batch.sequence for batch in batches] == [*range(1, len(batches) + 1)]
    assert [s.iteration for batch in batches for s in batch.samples] == [*range(300)]
    text = "".join(chunk.text for batch in batches for chunk in batch.chunks)
    assert text.split() == [str(number) for number in range(300)]


def test_at_most_twenty_batches_a_second_are_sent(rank, supervisor, log) -> None:
    rank.channel.carry(log)
    start = time.monotonic()
    while time.monotonic() - start < 1.0:
        log.add("loss", 0, 0.5)
        time.sleep(0.001)
    log.finish(Ending("finished"))

    supervisor.listen(lambda: any(batch.ending for batch in supervisor.of(Batch)))

    passed = time.monotonic() - start
    assert 5 < len(supervisor.of(Batch)) <= 20 * passed + 2


def test_what_was_not_confirmed_is_sent_again(rank, supervisor, log) -> None:
    rank.channel.carry(log)
    log.finish(Ending("finished"))

    supervisor.listen(lambda: supervisor.sequences.count(log.outbox.sequence) >= 2)

    assert [*sorted(set(supervisor.sequences))] == [*range(1, log.outbox.sequence + 1)]
    assert not log.settled
    assert log.path.exists()


def test_what_was_confirmed_is_not_sent_again_and_the_run_is_let_go(rank, supervisor, log) -> None:
    rank.channel.carry(log)
    log.finish(Ending("finished"))
    supervisor.listen(lambda: any(batch.ending for batch in supervisor.of(Batch)))

    supervisor.send(Acknowledge("260101-000000-arun", max(supervisor.sequences)))

    until(lambda: log.settled)
    until(lambda: not rank.channel._logs)
    assert not log.path.exists()  # the store has all of it


def test_points_that_no_page_draws_wait_for_others_and_output_does_not(
    rank, supervisor, log
) -> None:
    rank.channel.carry(log)
    supervisor.listen(lambda: bool(supervisor.sequences))
    supervisor.send(Acknowledge("260101-000000-arun", 1, watched=False))
    until(lambda: not log.is_watched)

    log.add("loss", 1, 0.5)  # the first are sent at once
    supervisor.listen(lambda: 2 in supervisor.sequences)
    log.add("loss", 2, 0.5)
    assert not log.is_due(log.looked + 0.9 * UNWATCHED_SECONDS)
    assert log.is_due(log.looked + UNWATCHED_SECONDS)
    supervisor.listen(lambda: 3 in supervisor.sequences)
    log.note("stdout", "printed")
    assert log.is_due(log.looked + log.pause(0.0, log.looked))
    supervisor.send(Acknowledge("260101-000000-arun", 3))
    until(lambda: log.is_watched)

    assert log.is_due(log.looked)


def test_a_supervisor_that_misses_a_batch_gets_all_from_there(rank, supervisor, log) -> None:
    rank.channel.carry(log)
    for number in (1, 2, 3):
        supervisor.listen(lambda number=number: number in supervisor.sequences)
        log.add("loss", number, 0.5)
    supervisor.listen(lambda: 4 in supervisor.sequences)
    supervisor.heard.clear()

    supervisor.send(Acknowledge("260101-000000-arun", 1, resend=True))
    supervisor.listen(lambda: 4 in supervisor.sequences)

    assert supervisor.sequences[-3:] == [2, 3, 4]
    assert supervisor.of(Batch)[-2].samples[0].iteration == 2


def test_a_supervisor_that_comes_back_at_its_address_lacks_nothing(
    rank, opened, router, supervisor, log, tmp_path
) -> None:
    rank.channel.carry(log)
    log.add("loss", 1, 0.5)
    supervisor.listen(lambda: bool(supervisor.sequences))
    supervisor.send(Acknowledge("260101-000000-arun", 1))
    router.close()
    for iteration in (2, 3):
        time.sleep(0.1)
        log.add("loss", iteration, 0.5)
    log.finish(Ending("finished", 3))
    until(lambda: log.closed)

    router = opened(RankRouter(tmp_path / "rank_router.json"))
    successor = Supervisor(router)
    lacking = {*range(2, log.outbox.sequence + 1)}
    successor.listen(lambda: lacking <= {*successor.sequences})

    reported = {batch.sequence: batch for batch in supervisor.of(Batch) + successor.of(Batch)}
    assert [s.iteration for n in sorted(reported) for s in reported[n].samples] == [
        1,
        2,
        3,
    ]
    assert reported[log.outbox.sequence].ending == Ending("finished", 3)
    successor.send(Acknowledge("260101-000000-arun", log.outbox.sequence))
    until(lambda: log.settled)


def test_a_pulse_is_sent_from_time_to_time(rank, supervisor, log) -> None:
    rank.channel.carry(log)
    start = time.monotonic()

    supervisor.listen(lambda: len(supervisor.of(Pulse)) >= 2)

    assert supervisor.of(Pulse)[0] == Pulse("260101-000000-arun", 0, 7, 2.0, "Barrier", 1.5, 4)
    assert time.monotonic() - start > PULSE_SECONDS / 2


def test_a_run_has_a_pulse_as_soon_as_it_begins(rank, supervisor, log) -> None:
    rank.channel.carry(log)
    supervisor.listen(lambda: len(supervisor.of(Pulse)) >= 2)
    second = RunLog("260101-000000-next", 0, log.path.with_name("second"))
    start = time.monotonic()

    rank.channel.carry(second)
    supervisor.listen(lambda: supervisor.of(Pulse)[-1].run == second.run)

    assert time.monotonic() - start < PULSE_SECONDS / 2


def test_a_pulse_that_is_asked_for_comes_at_once(rank, supervisor, log) -> None:
    rank.channel.carry(log)
    supervisor.listen(lambda: bool(supervisor.of(Pulse)))
    start = time.monotonic()

    supervisor.send(AskPulse("260101-000000-arun"))
    supervisor.listen(lambda: len(supervisor.of(Pulse)) >= 2)

    assert time.monotonic() - start < PULSE_SECONDS


def test_a_stop_reaches_the_rank(rank, supervisor, log) -> None:
    rank.channel.carry(log)
    supervisor.listen(lambda: bool(supervisor.sequences))

    supervisor.send(StopAt("260101-000000-arun", 42))

    until(lambda: rank.stops)
    assert rank.stops == [42]


def test_a_wish_for_a_snapshot_reaches_the_rank(rank, supervisor, log) -> None:
    rank.channel.carry(log)
    supervisor.listen(lambda: bool(supervisor.sequences))

    supervisor.send(SaveSoon("260101-000000-arun"))

    assert rank.asked_to_save.wait(PATIENCE_SECONDS)


def test_an_interrupt_reaches_the_rank_while_its_main_thread_is_busy(rank, supervisor, log) -> None:
    rank.channel.carry(log)
    supervisor.listen(lambda: bool(supervisor.sequences))

    supervisor.send(Interrupt("260101-000000-arun"))

    assert rank.interrupted.wait(PATIENCE_SECONDS)
    assert not rank.channel.is_cancelled("260101-000000-arun")


def test_a_run_that_is_interrupted_before_it_began_is_called_off(rank, supervisor) -> None:
    supervisor.send(Interrupt("260101-000000-late"))

    until(lambda: rank.channel.is_cancelled("260101-000000-late"))
    assert not rank.interrupted.is_set()
    assert not rank.channel.is_cancelled("260101-000000-else")


def test_a_rank_that_has_ended_its_run_is_neither_stopped_nor_interrupted(
    rank, supervisor, log
) -> None:
    rank.channel.carry(log)
    log.finish(Ending("finished"))
    supervisor.listen(lambda: bool(supervisor.sequences))

    supervisor.send(Interrupt("260101-000000-arun"))
    supervisor.send(StopAt("260101-000000-arun", 1))
    supervisor.send(AskPulse("260101-000000-arun"))

    supervisor.listen(lambda: bool(supervisor.of(Pulse)))  # what came last was carried out
    assert not rank.interrupted.is_set()
    assert rank.stops == []


def test_commands_for_another_run_are_not_obeyed(rank, supervisor, log) -> None:
    rank.channel.carry(log)
    supervisor.listen(lambda: bool(supervisor.sequences))

    supervisor.send(StopAt("260101-000000-else", 1))
    supervisor.send(Acknowledge("260101-000000-else", 1))
    supervisor.send(StopAt("260101-000000-arun", 2))

    until(lambda: rank.stops)
    assert rank.stops == [2]
    assert log.outbox.acknowledged == 0


def test_the_next_run_begins_while_the_last_is_not_yet_confirmed(
    rank, supervisor, log, tmp_path
) -> None:
    second = RunLog("260101-000000-next", 0, tmp_path / "second.log")
    rank.channel.carry(log)
    log.finish(Ending("finished"))
    rank.channel.carry(second)
    second.finish(Ending("stopped"))

    supervisor.listen(lambda: sum(bool(batch.ending) for batch in supervisor.batches) == 2)

    supervisor.send(Acknowledge("260101-000000-next", second.outbox.sequence))
    until(lambda: second.settled)
    assert not log.settled


def test_ranks_are_distinguished(rank, router, supervisor) -> None:
    other = Rank(router, number=1)
    with contextlib.closing(other.channel):
        supervisor.listen(lambda: len(supervisor.of(Hello)) == 2)

        router.send(3, (1,), Interrupt("260101-000000-next"))

        until(lambda: other.channel.is_cancelled("260101-000000-next"))
        assert not rank.channel.is_cancelled("260101-000000-next")


def test_a_closed_channel_leaves_no_thread(router) -> None:
    channel = Rank(router).channel

    channel.close()

    assert not [t for t in threading.enumerate() if t.name == "workbench-channel"]


def test_a_batch_that_cannot_be_sent_is_left_out_and_the_run_continues(
    rank, supervisor, log
) -> None:
    rank.channel.carry(log)
    log.add("loss", 1, "no number")
    supervisor.listen(lambda: any(batch.chunks for batch in supervisor.of(Batch)))
    log.add("loss", 2, 0.5)
    log.finish(Ending("finished", 2))

    supervisor.listen(lambda: any(batch.ending for batch in supervisor.of(Batch)))

    batches = supervisor.batches
    assert [s.value for batch in batches for s in batch.samples] == [0.5]
    said = [chunk.text for batch in batches for chunk in batch.chunks]
    assert len(said) == 1
    assert "could not be sent" in said[0]


def test_a_thread_that_fails_all_the_same_says_so(router) -> None:
    died: list[str] = []
    channel = Channel(
        Address(router.endpoint, b"no key"),
        generation=3,
        rank=0,
        pulse=lambda run: Pulse(run, 0, 7),
        stop_at=lambda boundary: None,
        interrupt=lambda: None,
        died=died.append,
    )

    channel.open()
    until(lambda: died)
    channel.close()

    assert "Traceback" in died[0]


def test_a_rank_that_has_left_says_so_before_all_that_it_wrote_has_arrived(
    rank, supervisor, log
) -> None:
    rank.channel.carry(log)
    supervisor.listen(lambda: bool(supervisor.of(Pulse)))
    for _ in range(20):
        log.note("stdout", "x" * 2_000_000)
    log.finish(Ending("stopped", 3))

    supervisor.listen(lambda: supervisor.of(Pulse)[-1].left)

    assert not any(batch.ending for batch in supervisor.of(Batch))


@pytest.fixture
def context() -> Iterator[zmq.Context]:
    with zmq.Context() as context:
        yield context


def watched(context: zmq.Context, given_up: list[bool]) -> tuple[zmq.Socket, SupervisorTimeout]:
    socket = context.socket(zmq.DEALER)
    socket.linger = 0
    return socket, SupervisorTimeout(socket, 60, lambda: given_up.append(True))


def test_who_never_had_contact_gives_up_after_its_patience(context, monkeypatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    given_up: list[bool] = []
    socket, contact = watched(context, given_up)

    with socket:
        contact.look(159.0)
        assert not given_up
        contact.look(161.0)
        contact.close()

    assert given_up


def test_patience_is_counted_from_when_contact_was_lost(context) -> None:
    given_up: list[bool] = []
    socket, contact = watched(context, given_up)
    server = context.socket(zmq.ROUTER)
    server.linger = 0
    port = server.bind_to_random_port("tcp://127.0.0.1")
    with socket:
        socket.connect(f"tcp://127.0.0.1:{port}")
        socket.send(b"")
        assert server.poll(5000)
        contact.look(1e9)
        assert not given_up
        server.close()
        assert contact._events.poll(5000)

        contact.look(2e9)
        contact.look(2e9 + 59)
        assert not given_up
        contact.look(2e9 + 61)
        contact.close()

    assert given_up


def test_a_rank_beside_its_supervisor_waits_forever(monkeypatch) -> None:
    monkeypatch.delenv("WORKBENCH_PATIENCE", raising=False)

    assert patience() == 0.0
