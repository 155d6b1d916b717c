"""What earlier cells left is on new ranks too, before a run continues or begins there."""

from __future__ import annotations

import re

from tests.supervisor.conftest import NAME, Stage
from workbench.core.options.table import variables
from workbench.core.run.model import Run, RunKind, RunState
from workbench.view.cluster_changes import resize_effect

# Trains forever on two ranks, and one step on any other number.
TRAINING = """
first = resume()
for iteration in range(first, 400):
    report(loss=model[0])
    if iteration == 3:
        snapshot()
    if size != 2:
        break
    sleep(0.02)
"""
DIES_ONCE = """
first = resume()
report(loss=model[0])
if not first:
    snapshot()
    barrier()
    kill() if rank == 1 else sleep(60)
"""


def resize(stage: Stage, ranks: int) -> None:
    stage.store.wish_cluster(NAME, up=True, ranks=ranks, oversubscribe=True)


def at_snapshot(stage: Stage, source: str) -> str:
    run = stage.ask(source)
    stage.until(lambda: stage.store.attempts.newest_snapshot(run) >= 0)
    return run


def repeated(stage: Stage) -> list[Run]:
    found = stage.store.runs(NAME, setups=True)
    return [run for run in reversed(found) if run.wish.kind is RunKind.REPLAY]


def losses(stage: Stage, run: str, iteration: int) -> list[float]:
    points = stage.store.reports.points(run)
    return [p.value for p in points if p.name == "loss" and p.iteration >= iteration]


def test_the_cells_that_a_run_uses_are_repeated_before_it_moves(stage: Stage) -> None:
    stage.up(2)
    first, other, second = (
        stage.ended(stage.ask(source)).id
        for source in ("data = size * 10", "other = 1", "model = [data]")
    )
    run = at_snapshot(stage, TRAINING)
    resize(stage, 3)

    fact = stage.ended(run).fact

    assert (fact.state, fact.attempt, fact.ranks) == (RunState.FINISHED, 2, 3), fact.message
    assert set(losses(stage, run, fact.iteration)) == {30.0}
    again = repeated(stage)
    assert [one.wish.replays for one in again] == [first, second, run]
    assert {one.fact.state for one in again} == {RunState.FINISHED}
    assert {(one.fact.generation, one.fact.ranks) for one in again} == {(2, 3)}
    assert fact.message.endswith(f"Repeated before it on these ranks: {first!r}, {second!r}.")
    assert other not in fact.message


def test_a_cell_that_cannot_be_repeated_costs_the_run_nothing(stage: Stage) -> None:
    stage.up(2)
    stage.ended(stage.ask("model = [1 if size == 2 else 1 / 0]"))
    run = at_snapshot(stage, TRAINING.replace("400", "120"))
    resize(stage, 3)

    stage.until(lambda: "could not be repeated" in stage.store.run(run).fact.message)
    message = stage.store.run(run).fact.message
    fact = stage.ended(run).fact

    assert message.startswith("It keeps its ranks until it ends.")
    assert "division by zero" in message
    assert (fact.state, fact.attempt, fact.iteration) == (RunState.FINISHED, 1, 120)
    assert len(repeated(stage)) == 1, "it is not tried again"
    stage.until(lambda: stage.store.cluster_fact(NAME).ranks == 3)


def test_a_run_that_uses_what_no_cell_has_made_keeps_its_ranks(stage: Stage) -> None:
    stage.up(2)
    by_hand(stage, "model")
    run = at_snapshot(stage, TRAINING.replace("400", "30"))
    stage.until(lambda: resize_effect(stage.store, NAME))
    before = stage.until(lambda: stage.store.run(run).fact.hindrance)
    effect = resize_effect(stage.store, NAME)
    resize(stage, 3)

    stage.until(lambda: "no cell on record" in stage.store.run(run).fact.message)
    assert effect == f"A resize waits for the end of run {run}. {before}"
    fact = stage.ended(run).fact

    assert (fact.state, fact.attempt, repeated(stage)) == (RunState.FINISHED, 1, [])


def test_a_cell_that_may_not_matter_may_fail_on_the_new_ranks(stage: Stage) -> None:
    stage.up(2)
    stage.ended(stage.ask("import math\nmath.sqrt(2 - size)"))
    run = at_snapshot(stage, "import math\nmodel = [1]\n" + TRAINING)
    resize(stage, 3)

    fact = stage.ended(run).fact

    assert (fact.state, fact.ranks) == (RunState.FINISHED, 3), fact.message
    assert [one.fact.state for one in repeated(stage)] == [RunState.FAILED, RunState.FINISHED]


def test_a_cell_is_repeated_on_the_ranks_of_the_run_that_needs_it(stage: Stage) -> None:
    stage.up(2)
    stage.ended(stage.ask("model = [size]", ranks=2))
    run = at_snapshot(stage, TRAINING)
    resize(stage, 3)

    fact = stage.ended(run).fact

    assert (fact.state, fact.ranks) == (RunState.FINISHED, 3), fact.message
    assert set(losses(stage, run, fact.iteration)) == {3.0}


def test_the_cells_are_repeated_after_a_loss(stage: Stage) -> None:
    stage.up(2)
    cell = stage.ended(stage.ask("model = [7]")).id

    fact = stage.ended(stage.ask(DIES_ONCE)).fact

    assert (fact.state, fact.attempt) == (RunState.FINISHED, 2), fact.message
    assert [one.wish.replays for one in repeated(stage)] == [cell]


def test_the_next_cell_after_a_resize_finds_what_it_uses(stage: Stage) -> None:
    stage.up(2)
    stage.ended(stage.ask("model = [size]"))
    resize(stage, 3)
    stage.until(lambda: stage.store.cluster_fact(NAME).ranks == 3)

    used = stage.ended(stage.ask("print(model)"))
    again = stage.ended(stage.ask("print(model)"))

    assert {one.text for one in stage.store.reports.output(used.id)} == {"[3]\n"}
    assert (used.fact.state, again.fact.state) == (RunState.FINISHED, RunState.FINISHED)
    assert len(repeated(stage)) == 1


def test_a_run_ends_if_a_cell_cannot_be_repeated_after_a_loss(stage: Stage) -> None:
    stage.up(2)
    by_hand(stage, "there")
    stage.ended(stage.ask("model = there"))

    fact = stage.ended(stage.ask(DIES_ONCE)).fact

    assert (fact.state, fact.attempt) == (RunState.FAILED, 2)
    # Whichever rank says it first.
    assert re.search(r"could not be repeated on the new ranks \(rank [01]: NameError", fact.message)
    assert f"`workbench run --resume {fact.id}`" in fact.message


def by_hand(stage: Stage, name: str) -> None:
    """Give the ranks a variable that no cell has made, as %%px does."""
    stage.cluster.worlds[1].spaces = {n: {name: [1]} for n in range(2)}


def test_what_may_have_broken_ranks_is_not_repeated_on_the_next(stage: Stage) -> None:
    stage.up(2)
    stage.ended(stage.ask("import math\nmath.other = 1\nspoil()"))
    stage.ended(stage.ask("print('it cannot begin')"))

    fact = stage.ended(stage.ask("import math\nprint(math)")).fact

    assert fact.state is RunState.FINISHED, fact.message
    assert repeated(stage) == []


def test_a_run_says_what_is_repeated_before_it_is(stage: Stage) -> None:
    stage.up(2)
    made = [stage.ended(stage.ask(one)).id for one in ("data = [1]", "model = [data]")]
    resize(stage, 3)
    stage.until(lambda: stage.store.cluster_fact(NAME).ranks == 3)

    run = stage.ask("print(model)")
    message = stage.until(lambda: stage.store.run(run).fact.message)

    assert message == f"Repeats {made[0]!r}, {made[1]!r} first."
    assert stage.ended(run).fact.state is RunState.FINISHED


def test_nothing_is_repeated_for_a_run_that_asks_for_that(stage: Stage) -> None:
    stage.up(2)
    stage.ended(stage.ask("model = [1]"))
    resize(stage, 3)
    stage.until(lambda: stage.store.cluster_fact(NAME).ranks == 3)

    fact = stage.ended(stage.ask("print(model)", environment=variables({"replay": "off"}))).fact

    assert "NameError" in fact.message
    assert fact.message.endswith("the variables of earlier cells are lost (`--replay off`).")
    assert repeated(stage) == []


def test_a_set_up_cell_that_ends_ranks_is_not_repeated_on_the_next(stage: Stage) -> None:
    stage.store.put_setup(NAME, "bad", "kill()")
    stage.store.put_setup(NAME, "good", "model = 3")
    stage.up(2)

    run = stage.ended(stage.ask("print(model)"))

    assert run.fact.state is RunState.FINISHED, run.fact.message
    assert run.fact.generation == 2
