"""The contract of every cluster: the fake, Open MPI and MPICH."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.conftest import Bench
from workbench.core.cluster.generation import WorldState
from workbench.core.run.rank_protocol import Acknowledge, AskPulse, Batch, Interrupt, StopAt

pytestmark = pytest.mark.contract


@pytest.fixture
def pair(bench: Bench) -> Iterator[int]:
    """Return the generation of a world of two ranks that tests must leave whole."""
    with bench.shared() as generation:
        yield generation


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_world_has_every_rank_once_and_computes_together(bench: Bench, size: int) -> None:
    generation = bench.begin(size)

    fact = bench.world_until(generation, lambda fact: fact.state is WorldState.READY)
    run = bench.submit(generation, "barrier()\nreport(loss=rank)")
    batches = bench.batches_until_ended(run, size)

    assert [rank.rank for rank in fact.ranks] == list(range(size))
    assert {n: [s.value for b in found for s in b.samples] for n, found in batches.items()} == {
        n: [float(n)] for n in range(size)
    }
    bench.cluster.end_world(generation)


def test_batches_are_numbered_from_one_without_a_gap(bench: Bench, pair: int) -> None:
    run = bench.submit(pair, "for i in range(5):\n    report(loss=i)\n    sleep(0.07)")

    batches = bench.batches_until_ended(run, 2)

    for found in batches.values():
        assert [batch.sequence for batch in found] == list(range(1, len(found) + 1))
        assert [s.value for b in found for s in b.samples] == [0.0, 1.0, 2.0, 3.0, 4.0]
        assert found[-1].ending is not None
        assert found[-1].ending.state == "finished"


def test_what_a_rank_prints_comes_with_its_rank(bench: Bench, pair: int) -> None:
    run = bench.submit(pair, "print('from', rank)")

    batches = bench.batches_until_ended(run, 2)

    text = {n: "".join(c.text for b in found for c in b.chunks) for n, found in batches.items()}
    assert text == {0: "from 0\n", 1: "from 1\n"}


def test_what_is_not_acknowledged_is_sent_again_when_asked(bench: Bench, pair: int) -> None:
    run = bench.submit(pair, "report(loss=1)\nsleep(0.5)")
    bench.until(lambda: bench.batches(run).get(0))
    bench.messages.clear()

    bench.cluster.send(pair, [0], Acknowledge(run, 0, resend=True))

    first = bench.until(lambda: bench.batches(run).get(0))[0]
    assert first.sequence == 1
    bench.batches_until_ended(run, 2)


def test_a_run_can_take_fewer_ranks_than_its_world(bench: Bench, pair: int) -> None:
    run = bench.submit(pair, "barrier()\nreport(loss=1)", ranks=1)

    assert list(bench.batches_until_ended(run, 1)) == [0]


def test_a_run_that_is_submitted_again_is_executed_once(bench: Bench, pair: int) -> None:
    run = bench.submit(pair, "import time\nprint(time.monotonic_ns())\nbarrier()", times=3)

    bench.batches_until_ended(run, 2)
    bench.batches_until_ended(bench.submit(pair, "barrier()"), 2)  # the others had their turn

    for rank in range(2):
        reported = {
            text
            for message in bench.messages
            if isinstance(message, Batch) and (message.run, message.rank) == (run, rank)
            for chunk in message.chunks
            if (text := chunk.text.strip())  # a line's end may come in a batch of its own
        }
        assert len(reported) == 1


def test_a_rank_that_raises_tells_its_own_traceback(bench: Bench, pair: int) -> None:
    run = bench.submit(pair, "if rank == 1:\n    raise ValueError('broken on one')")

    endings = {n: b[-1].ending for n, b in bench.batches_until_ended(run, 2).items()}

    assert endings[0] is not None
    assert endings[0].state == "finished"
    assert endings[1] is not None
    assert endings[1].error == "ValueError: broken on one"
    assert "raise ValueError" in endings[1].traceback or "ValueError" in endings[1].traceback


def test_ranks_stop_together_at_the_boundary_they_were_given(bench: Bench, pair: int) -> None:
    # No rank passes the boundary before it knows of it, however long the message takes.
    wait = "while not asked_to_stop():\n        sleep(0.01)"
    run = bench.submit(pair, f"while True:\n    report(loss=1)\n    barrier()\n    {wait}")
    bench.until(lambda: bench.reporting(run) == {0, 1} or None)
    bench.cluster.send(pair, [0, 1], AskPulse(run))
    bench.until(lambda: {p.rank for p in bench.pulses(run) if p.boundary == 1} == {0, 1} or None)

    bench.cluster.send(pair, [0, 1], StopAt(run, 4))

    endings = [b[-1].ending for b in bench.batches_until_ended(run, 2).values()]
    assert [(e.state, e.iteration) for e in endings if e] == [("stopped", 4)] * 2


def test_an_interrupt_ends_a_rank_that_passes_no_boundary(bench: Bench, pair: int) -> None:
    run = bench.submit(pair, "while True:\n    sleep(0.01)")
    bench.until(lambda: found if len(found := bench.batches(run)) == 2 else None)

    bench.cluster.send(pair, [0, 1], Interrupt(run))

    endings = [b[-1].ending for b in bench.batches_until_ended(run, 2).values()]
    assert [ending.state for ending in endings if ending] == ["stopped", "stopped"]


def test_a_rank_blocked_by_one_that_failed_is_freed_where_mpi_can(bench: Bench, pair: int) -> None:
    if not bench.cluster.fault_tolerant:
        pytest.skip("this MPI cannot revoke a communicator; its world is started again instead")
    run = bench.submit(pair, "if rank == 1:\n    raise ValueError('no')\nbarrier()\nsleep(60)")
    bench.until(lambda: bench.batches(run).get(0))

    bench.cluster.send(pair, [0], Interrupt(run))
    bench.batches_until_ended(run, 2)
    bench.cluster.recover(pair)

    assert bench.until(lambda: bench.cluster.recovered(pair)) is True
    again = bench.submit(pair, "barrier()\nreport(loss=1)")
    assert set(bench.batches_until_ended(again, 2)) == {0, 1}


def test_a_second_world_starts_beside_one_that_trains(bench: Bench, pair: int) -> None:
    run = bench.submit(pair, "for i in range(1000):\n    report(loss=i)\n    sleep(0.01)")
    bench.until(lambda: bench.batches(run).get(0))

    second = bench.ready(1)
    other = bench.submit(second, "report(loss=7)")

    assert set(bench.batches_until_ended(other, 1)) == {0}
    assert not any(batch.ending for batch in bench.batches(run)[0])
    bench.cluster.end_world(second)
    bench.cluster.send(pair, [0, 1], Interrupt(run))
    bench.batches_until_ended(run, 2)


def test_a_world_that_was_ended_is_reported_once_and_forgotten(bench: Bench) -> None:
    generation = bench.ready(1)

    bench.cluster.end_world(generation)

    bench.world_until(generation, lambda fact: fact.state is WorldState.ENDED)
    assert generation not in {fact.generation for fact in bench.cluster.observe()}


def test_a_rank_that_is_killed_is_reported_with_its_number(bench: Bench) -> None:
    generation = bench.ready(2)

    bench.submit(generation, "sleep(0.2)\nif rank == 1:\n    kill()\nbarrier()")

    fact = bench.world_until(generation, lambda fact: bool(fact.deaths))
    assert 1 in {death.rank for death in fact.deaths}
    assert fact.state in (WorldState.BROKEN, WorldState.ENDED)
    bench.cluster.end_world(generation)


def test_a_rank_that_cannot_begin_a_run_is_reported_once(bench: Bench) -> None:
    generation = bench.ready(2)
    spoiling = bench.submit(generation, "if rank == 1:\n    spoil()")
    bench.batches_until_ended(spoiling, 2)
    assert bench.cluster.failed_calls() == ()

    run = bench.submit(generation, "report(loss=1)")
    failed = bench.until(lambda: bench.cluster.failed_calls() or None)

    assert [(call.run, call.rank) for call in failed] == [(run, 1)]
    assert "Error: " in failed[0].error
    assert bench.cluster.failed_calls() == ()
    bench.cluster.end_world(generation)
