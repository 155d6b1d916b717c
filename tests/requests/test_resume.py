"""A run that has ended is queued again if it has a snapshot; nothing is started otherwise."""

from __future__ import annotations

import fcntl
from dataclasses import replace

import pytest

from tests.batches import event_batch
from tests.requests.conftest import has_started
from workbench.core.fleet.model import FleetWish
from workbench.core.run.model import RunKind, RunState
from workbench.core.run.rank_protocol import SnapshotSaved
from workbench.core.run.run_options import RunOptions
from workbench.core.world.world import RankFact
from workbench.errors import InputError, StateError, Unknown
from workbench.requests.resume import ask_resume, nodes_to_bring_back
from workbench.requests.run import ask_run
from workbench.requests.supervisor import LOCK_NAME
from workbench.store import Store
from workbench.store.paths import cluster_directory, snapshot_directory


def stopped(store: Store, kind: RunKind = RunKind.CELL, **options: object) -> str:
    """Return the name of a run that was stopped at iteration 7."""
    wish = ask_run(store, kind=kind, source="pass", name="fit", options=RunOptions(**options))
    store.put_run_fact(
        wish.id, state=RunState.STOPPED, started=5.0, ended=9.0, iteration=7, stopped_at=7
    )
    return wish.name


def save(store: Store, name: str) -> None:
    """Put a snapshot of iteration 7 where the run's ranks would."""
    run = store.run(name)
    store.reports.add_batches([event_batch(run.id, SnapshotSaved(7), time=8.0)])
    folder = snapshot_directory(run.id) / "newest"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")


def test_a_stopped_run_is_queued_as_its_next_attempt(store, home, awake) -> None:
    save(store, stopped(store, ranks=1, parameters=(("lr", 0.1), ("epochs", 2))))

    wish = ask_resume(store, "fit", {"parameters": (("epochs", 4),)})

    run = store.run("fit")
    assert (run.id, run.wish) == (wish.id, wish)
    assert (run.fact.state, run.fact.attempt) == (RunState.QUEUED, 2)
    assert (run.fact.started, run.fact.ended, run.fact.stopped_at) == (0.0, 0.0, -1)
    assert run.fact.message == "Continues from iteration 7."
    assert (wish.source, wish.options.ranks) == ("pass", 1)
    assert dict(wish.options.parameters) == {"lr": 0.1, "epochs": 4}
    (past,) = store.attempts.past(run.id)
    assert (past.state, past.iteration, past.started) == (RunState.STOPPED, 7, 5.0)
    assert not past.is_automatic


def test_a_script_that_loads_its_own_state_starts_again_without_a_snapshot(
    store, home, awake
) -> None:
    stopped(store, RunKind.SCRIPT, restart=True)

    wish = ask_resume(store, "fit")

    fact = store.run("fit").fact
    assert wish.restarts
    assert (fact.attempt, fact.message) == (2, "The script starts again.")


def test_a_resumed_run_waits_behind_those_that_wait(store, home, awake) -> None:
    save(store, stopped(store))
    ask_run(store, kind=RunKind.CELL, source="pass", name="other")

    ask_resume(store, "fit")

    assert [run.wish.name for run in store.list_unfinished("default")] == ["other", "fit"]


def test_a_new_source_and_another_size_replace_the_old_ones(store, home, awake) -> None:
    save(store, stopped(store, ranks=1))

    wish = ask_resume(store, "fit", {"ranks": 3}, source="pass  # more", oversubscribe=True)

    assert (wish.source, wish.options.ranks) == ("pass  # more", 3)
    assert store.cluster_wish("default").ranks == 3


def test_a_stop_before_is_no_stop_of_the_next_attempt(store, home, awake) -> None:
    save(store, stopped(store))
    store.wish_stop(store.run("fit").id)

    assert not ask_resume(store, "fit").stop


@pytest.mark.parametrize(
    ("state", "kind", "given", "error", "sentence"),
    [
        (RunState.RUNNING, RunKind.CELL, {}, StateError, "Run 'fit' is running; wait for it, or"),
        (RunState.STOPPED, RunKind.MEASUREMENT, {}, StateError, "Run 'fit' is a measurement, w"),
        (RunState.STOPPED, RunKind.SETUP, {}, StateError, "Run 'fit' is a set-up cell, which"),
        (RunState.STOPPED, RunKind.CELL, {}, StateError, "Run 'fit' has no snapshot; run it again"),
        (
            RunState.STOPPED,
            RunKind.CELL,
            {"source": "pass", "path": "/tmp/fit.py"},
            StateError,
            "Run 'fit' is a cell, which no script can replace; resume it without the script",
        ),
        (RunState.STOPPED, RunKind.CELL, {"grace": -1.0}, InputError, "grace must be at least 0"),
        (RunState.STOPPED, RunKind.CELL, {"ranks": 0}, InputError, "ranks must be at least 1"),
    ],
)
def test_a_run_that_cannot_be_resumed_stays_as_it_is(
    store, home, awake, state, kind, given, error, sentence
) -> None:
    stopped(store, kind)
    store.put_run_fact(store.run("fit").id, state=state)
    before = store.run("fit")
    code = {name: given[name] for name in ("source", "path") if name in given}

    with pytest.raises(error) as refusal:
        ask_resume(store, "fit", given, **code)

    assert str(refusal.value).startswith(sentence)
    assert store.run("fit") == before
    assert store.attempts.past(before.id) == []


def test_an_unknown_run_starts_nothing(store, home) -> None:
    with pytest.raises(Unknown, match="No run is called 'fit'"):
        ask_resume(store, "fit")

    assert not has_started(home)


def test_snapshots_that_were_removed_here_are_missed(store, home, awake) -> None:
    save(store, stopped(store))
    folder = snapshot_directory(store.run("fit").id)
    folder.rename(folder.with_name("elsewhere"))

    with pytest.raises(StateError, match=f"Run 'fit' has no snapshot in {folder}"):
        ask_resume(store, "fit")


def test_of_two_requests_at_once_the_second_is_refused(store, home, awake) -> None:
    save(store, stopped(store))
    past = store.run("fit").fact
    ask_resume(store, "fit")

    with pytest.raises(StateError, match="resumed or deleted meanwhile"):
        store.attempts.resume_run(replace(past, state=RunState.STOPPED), "", store.run("fit").wish)


@pytest.mark.parametrize(
    ("expires", "is_up"),
    [(5.0, False), (0.0, False), (5.0, True)],  # its time was over, it was deleted, it is ending
)
def test_a_run_whose_nodes_are_gone_does_not_continue_on_this_machine(
    store, home, awake, expires, is_up
) -> None:
    save(store, stopped(store))
    fleet = FleetWish("rehearsal", nodes=3, expires=expires)
    store.wish_cluster("default", up=is_up, ranks=3, fleet=fleet)

    with pytest.raises(StateError) as refusal:
        ask_resume(store, "fit")

    assert store.run("fit").fact.state is RunState.STOPPED
    if not is_up:
        assert str(refusal.value) == (
            "Run 'fit' was in a rehearsal, and cluster 'default' has no nodes now; start them "
            "again with `workbench run --resume fit`, which asks first, or name another cluster "
            "with --cluster."
        )


def test_a_forgotten_cluster_is_not_taken_for_this_machine(store, home, awake) -> None:
    save(store, stopped(store))
    rank = RankFact(1, 0, "r-000001", pid=0, engine=0, address="10.0.0.1")
    store.put_ranks("default", [rank])
    store.put_run_fact(store.run("fit").id, generation=1)
    store.wish_cluster("default", up=False, ranks=1)
    assert store.forget_cluster("default")

    with pytest.raises(StateError, match="Run 'fit' was on other machines, and cluster 'default'"):
        ask_resume(store, "fit")


def test_a_run_continues_on_another_cluster_that_is_named(store, home, awake) -> None:
    save(store, stopped(store, ranks=1))
    (cluster_directory("other") / LOCK_NAME).touch()
    with (cluster_directory("other") / LOCK_NAME).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        wish = ask_resume(store, "fit", cluster="other")

    assert wish.cluster == store.run("fit").wish.cluster == "other"
    assert store.cluster_wish("other").up
    assert ask_same(store) == "other"


def ask_same(store: Store) -> str:
    """Resume it on the cluster that it has, by name."""
    store.put_run_fact(store.run("fit").id, state=RunState.STOPPED)
    with (cluster_directory("other") / LOCK_NAME).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return ask_resume(store, "fit", cluster="other").cluster


@pytest.mark.parametrize(
    ("changes", "nodes", "lives"),
    [
        ({"up": True}, None, 0.0),
        ({"up": False}, 3, 8 * 3600.0),
        ({"up": True, "nodes": 0}, 2, 8 * 3600.0),  # as many as it had
        ({"up": False, "expires": 90.0}, 3, 8 * 3600.0),
        ({"up": True, "nodes": 0, "expires": 500.0}, 2, 400.0),
    ],
)
def test_the_nodes_that_a_run_had_can_be_started_again(
    store, home, awake, changes, nodes, lives
) -> None:
    save(store, stopped(store))
    ranks = [RankFact(4, n, "x", pid=0, engine=n, address=f"10.0.0.{n}") for n in (1, 2)]
    store.put_ranks("default", ranks)
    store.put_run_fact(store.run("fit").id, generation=4)
    values = {"nodes": 3, **changes}
    up = values.pop("up")
    fleet = FleetWish("rehearsal", **values)
    store.wish_cluster("default", up=up, ranks=3, fleet=fleet)

    found = nodes_to_bring_back(store, store.run("fit"), 100.0)

    assert (found and found.nodes) == nodes
    assert found is None or found.expires == 100.0 + lives
