"""A script that loads its own checkpoints starts again on new ranks, and its curve continues."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulation.thread_cluster import HOST
from tests.supervisor.conftest import NAME, Stage
from workbench.core.cluster.generation import Death
from workbench.core.cluster.model import ResizeAt
from workbench.core.run.model import RunFact, RunKind, RunState
from workbench.core.run.run_options import RunOptions
from workbench.view.attempts import marks_of

# Ten iterations with a checkpoint of its own after the fourth.
SCRIPT = """
import pathlib
own = pathlib.Path(checkpoint)
first = int(own.read_text()) if own.exists() else 0
for iteration in range(first, 10):
    report(loss=iteration + 1, iteration=iteration + 1, epoch=(iteration + 1) / 5)
    barrier()
    if rank == 0 and iteration == 3:
        own.write_text("4")
    barrier()
    if iteration == 5 and not first:
        {then}
"""
WAITS = "sleep(60)"
STEPS_ON = (
    "while True:\n            report(loss=0, iteration=7, epoch=1.4)\n            sleep(0.01)"
)

TO_NEXT_EPOCH = """for more in range(300):
            report(loss=0, iteration=7, epoch=1.2 + more / 100)
            sleep(0.01)
        sleep(60)"""


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "own")


def begin(stage: Stage, checkpoint: str, then: str, **options: object) -> str:
    """Start a script that does ``then`` once, after its sixth iteration."""
    wish = replace(
        stage.store.run(stage.ask("pass")).wish,
        id="260101-000000-zzzz",
        name="script",
        kind=RunKind.SCRIPT,
        path="/script.py",
        source=SCRIPT.format(then=then),
        options=RunOptions(parameters=(("checkpoint", checkpoint),), restart=True, **options),
    )
    return stage.store.wish_run(wish).id


def at_sixth(stage: Stage, run: str) -> None:
    stage.until(lambda: stage.store.run(run).fact.iteration >= 6)


def finished(stage: Stage, run: str, ranks: int) -> RunFact:
    """Return how it ended, once each iteration is drawn once on each rank."""
    fact = stage.ended(run).fact
    drawn = sorted(
        (p.rank, p.iteration) for p in stage.store.reports.points(run) if p.name == "loss"
    )
    assert (fact.state, fact.ranks, fact.iteration) == (RunState.FINISHED, ranks, 10), fact.message
    assert [one for one in drawn if one[0] == 0] == [(0, n) for n in range(1, 11)]
    assert {rank for rank, n in drawn if n > 4} == {*range(ranks)}
    return fact


def test_a_script_whose_rank_is_killed_starts_again(stage: Stage, checkpoint) -> None:
    stage.up(2)

    run = begin(stage, checkpoint, "kill() if rank == 1 else sleep(60)")
    fact = finished(stage, run, 2)

    assert (fact.attempt, fact.resumed_at) == (2, 4)
    assert fact.message == (
        "Rank 1 on fakehost was lost (killed by its own cell). Retry 1 of 3. "
        "The script starts again on 2 ranks."
    )
    assert stage.store.attempts.newest_snapshot(run) == -1


def test_a_lost_node_is_not_counted(stage: Stage, checkpoint) -> None:
    stage.up(2)
    run = begin(stage, checkpoint, WAITS, retries=0)
    at_sixth(stage, run)
    world = stage.cluster.worlds[stage.store.run(run).fact.generation]
    world.deaths = (Death(1, HOST, "its node is gone", is_lost=True),)

    fact = finished(stage, run, 2)

    assert fact.message == (
        "Rank 1 on fakehost was lost (its node is gone). The script starts again on 2 ranks."
    )


def test_a_script_that_raises_starts_again_on_ranks_of_its_own(stage: Stage, checkpoint) -> None:
    stage.up(2)

    fact = finished(stage, begin(stage, checkpoint, "raise ValueError('flaky')"), 2)

    assert (fact.attempt, fact.generation) == (2, 3)
    assert fact.message.endswith("flaky. Retry 1 of 3. The script starts again on 2 ranks.")


@pytest.mark.parametrize(("then", "grace"), [(STEPS_ON, 60.0), (WAITS, 0.2)])
def test_a_resize_ends_it_at_a_step_or_after_its_grace(
    stage: Stage, checkpoint, then, grace
) -> None:
    stage.up(2)
    run = begin(stage, checkpoint, then, grace=grace)
    at_sixth(stage, run)
    stage.store.wish_cluster(NAME, up=True, ranks=3, oversubscribe=True)
    beside = set[int]()

    def ended() -> bool:
        beside.add(sum(bool(one.running) for one in stage.cluster.worlds.values() if not one.ended
                       and any(rank.is_alive() for rank in one.running.values())))  # fmt: skip
        return stage.store.run(run).fact.state.ended

    stage.until(ended)
    fact = finished(stage, run, 3)

    assert (fact.attempt, fact.resumed_at) == (2, 4)
    assert fact.message == (
        "It moved from 2 ranks to another size. The script starts again on 3 ranks."
    )
    assert max(beside) == 1  # the old and the new ranks never run the script side by side
    (past,) = stage.store.attempts.past(run)
    assert (past.state, past.failed_at) == (RunState.STOPPED, -1)


def test_a_script_leaves_at_the_end_of_an_epoch(stage: Stage, checkpoint) -> None:
    stage.up(2)
    run = begin(stage, checkpoint, TO_NEXT_EPOCH, grace=0.0)
    at_sixth(stage, run)
    stage.store.wish_cluster(NAME, up=True, ranks=3, oversubscribe=True, resize_at=ResizeAt.EPOCH)

    assert finished(stage, run, 3).resumed_at == 4


def test_a_stop_ends_a_script_for_good(stage: Stage, checkpoint) -> None:
    stage.up(2)
    run = begin(stage, checkpoint, STEPS_ON)
    at_sixth(stage, run)
    stage.store.wish_stop(run)

    fact = stage.ended(run).fact

    assert (fact.state, fact.attempt) == (RunState.STOPPED, 1)


def test_what_was_done_again_is_set_aside(stage: Stage, checkpoint) -> None:
    stage.up(2)

    run = begin(stage, checkpoint, "kill() if rank == 1 else sleep(60)")
    finished(stage, run, 2)

    (mark,) = marks_of(stage.store, stage.store.run(run))
    assert mark.iteration == 4
    assert mark.text.startswith("rank lost, 2 steps redone")
