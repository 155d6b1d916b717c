"""Wishes and facts are read as they were written, and names are unique."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from workbench.core.cluster.model import ClusterFact, ClusterState, ClusterWish
from workbench.core.run.model import Run, RunFact, RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import Batch, Sample
from workbench.core.run.run_options import RunOptions
from workbench.core.world.world import RankFact
from workbench.errors import StateError
from workbench.store import Store

FACT = ClusterFact("lab", ClusterState.READY, 4, 2, "All is well.", 123, "/c.json", 9.5, 1, 3)


def ranks(generation: int) -> list[RankFact]:
    versions = (("chainer", "7.8.1"), ("numpy", "2.4.0"))
    return [
        RankFact(generation, n, f"host{n}", 100 + n, 7 - n, "3.12.1", "Open MPI", 1, versions)
        for n in range(2)
    ]


# -- clusters


def test_a_cluster_that_no_user_asked_for_is_down(store) -> None:
    assert store.cluster_wish("lab") is None
    assert store.cluster_fact("lab") == ClusterFact("lab")
    assert store.ranks("lab", 1) == []


def test_the_later_wish_wins(store) -> None:
    store.wish_cluster("lab", up=True, ranks=2)

    store.wish_cluster("lab", up=True, ranks=8, oversubscribe=True)

    assert store.cluster_wish("lab") == ClusterWish("lab", True, 8, True, revision=2)


def test_every_wish_is_a_new_revision_even_if_it_is_the_same(store) -> None:
    revisions = [store.wish_cluster("lab", up=False, ranks=2).revision for _ in range(3)]

    assert revisions == [1, 2, 3]


def test_clusters_are_listed_by_name(store) -> None:
    for name in ("b", "c", "a"):
        store.wish_cluster(name, up=True, ranks=1)

    assert [wish.name for wish in store.clusters()] == ["a", "b", "c"]


def test_a_cluster_fact_comes_back_as_it_was(store) -> None:
    store.put_cluster_fact(ClusterFact("lab", ClusterState.STARTING))
    store.put_cluster_fact(FACT)

    assert store.cluster_fact("lab") == FACT
    assert store.cluster_fact("other") == ClusterFact("other")


def test_rank_facts_come_back_in_rank_order(store) -> None:
    store.put_ranks("lab", [*reversed(ranks(1))])

    assert store.ranks("lab", 1) == ranks(1)


def test_ranks_of_all_but_the_last_two_generations_are_forgotten(store) -> None:
    for generation in (1, 2, 3):
        store.put_ranks("lab", ranks(generation))

    assert store.ranks("lab", 1) == []
    assert store.ranks("lab", 2) == ranks(2)
    assert store.ranks("lab", 3) == ranks(3)


def test_ranks_of_the_generation_that_carries_the_cluster_stay(store) -> None:
    store.put_ranks("lab", ranks(1))
    store.put_cluster_fact(ClusterFact("lab", generation=1))

    for generation in (2, 3, 4):  # a resize, and back again, while a run trains
        store.put_ranks("lab", ranks(generation))

    assert store.ranks("lab", 1) == ranks(1)
    assert store.ranks("lab", 2) == []
    assert store.ranks("lab", 4) == ranks(4)
    assert store.generations("lab") == [1, 3, 4]
    assert store.generations("other") == []


def test_ranks_of_generations_beside_each_other_stay(store) -> None:
    for generation in (1, 2, 3, 4, 5):
        store.put_ranks("lab", ranks(generation), standing=[2, 5])

    assert store.generations("lab") == [2, 4, 5]


def test_set_up_cells_keep_their_order_when_one_is_replaced(store) -> None:
    for name, source in (("data", "a"), ("model", "b"), ("data", "c")):
        store.put_setup("lab", name, source)

    assert store.setups("lab") == [("data", "c"), ("model", "b")]


def test_set_up_cells_of_one_cluster_are_forgotten_alone(store) -> None:
    store.put_setup("lab", "data", "a")
    store.put_setup("other", "data", "b")

    store.clear_setups("lab")

    assert store.setups("lab") == []
    assert store.setups("other") == [("data", "b")]


# -- runs


def test_a_run_comes_back_with_all_that_was_wished(store, wish) -> None:
    full = wish(
        "läuft",
        kind=RunKind.SCRIPT,
        source="print('hi')\n",
        cluster="lab",
        path="/w/train.py",
        folder="/w",
        options=RunOptions(
            ranks=4,
            arguments=("--epoch", "3", ""),
            parameters=(("lr", 0.1), ("layers", [1, {"a": None}]), ("on", True)),
            environment=(("OMP_NUM_THREADS", "1"),),
            grace=2.5,
            wall_clock_limit=60.0,
        ),
        created=1.75e9,
    )

    store.wish_run(full)

    assert store.run(full.id) == Run(full, RunFact(full.id))
    assert store.run("läuft") == store.run(full.id)


def test_a_run_fact_comes_back_as_it_was(store, run) -> None:
    fact = RunFact(run, RunState.FAILED, 3, 4, 1.5, 2.5, 10, 20, 0.5, 1.0, 2, "h", "Tr", "It fell.")
    changes = {name: getattr(fact, name) for name in fact.__dataclass_fields__ if name != "id"}

    store.put_run_fact(run, **changes)

    assert store.run(run).fact == fact


def test_only_the_named_fields_of_a_fact_change(store, run) -> None:
    store.put_run_fact(run, state=RunState.RUNNING, iteration=5)

    store.put_run_fact(run, iteration=6)

    assert store.run(run).fact == RunFact(run, RunState.RUNNING, iteration=6)


def test_a_wish_to_stop_is_seen_and_may_be_repeated(store, run) -> None:
    assert not store.run(run).wish.stop

    store.wish_stop(run)
    store.wish_stop(run)

    assert store.run(run).wish.stop


def test_an_unknown_run_is_refused_with_where_it_was_sought(store) -> None:
    with pytest.raises(StateError) as refusal:
        store.run("nope")

    assert str(refusal.value) == (
        f"No run is called 'nope' in {store.path}; list all with `workbench runs`."
    )


@pytest.mark.parametrize("state", [state for state in RunState if not state.ended])
def test_a_name_that_an_unfinished_run_has_is_refused(store, wish, run, state) -> None:
    store.put_run_fact(run, state=state)

    with pytest.raises(StateError) as refusal:
        store.wish_run(wish("fit"))

    assert str(refusal.value) == (
        f"A run called 'fit' is {state}; wait for it, stop it (`workbench stop fit`), "
        "or choose another name."
    )
    assert len(store.runs()) == 1


@pytest.mark.parametrize("state", [state for state in RunState if state.ended])
def test_a_name_that_an_ended_run_has_gets_a_number(store, wish, run, state) -> None:
    store.put_run_fact(run, state=state)

    again = store.wish_run(wish("fit"))

    assert again.name == "fit 2"
    assert store.run("fit 2").id == store.run("fit").id == again.id
    assert store.run("fit~1").id == run


def test_numbers_continue_where_one_is_taken(store, wish, run) -> None:
    for taken in ("fit 2", "fit 3", "fit x", "fitter"):
        store.wish_run(wish(taken))
    store.put_run_fact(run, state=RunState.FINISHED)

    assert store.wish_run(wish("fit")).name == "fit 4"


def test_runs_are_listed_newest_first_without_repeated_set_ups(store, wish) -> None:
    for number, kind in enumerate((RunKind.CELL, RunKind.SETUP, RunKind.SCRIPT)):
        store.wish_run(wish(f"r{number}", kind=kind, cluster="lab"))
    store.wish_run(wish("elsewhere", cluster="other"))

    assert [r.wish.name for r in store.runs()] == ["elsewhere", "r2", "r0"]
    assert [r.wish.name for r in store.runs("lab", setups=True)] == ["r2", "r1", "r0"]
    assert [r.wish.name for r in store.runs(limit=1)] == ["elsewhere"]


def test_unfinished_runs_are_listed_oldest_first(store, wish) -> None:
    for name, state in (("a", "running"), ("b", "lost"), ("c", "queued"), ("d", "finished")):
        store.put_run_fact(store.wish_run(wish(name, cluster="lab")).id, state=state)
    store.wish_run(wish("elsewhere", cluster="other"))

    assert [r.wish.name for r in store.list_unfinished("lab")] == ["a", "c"]


# -- what others see


@pytest.fixture
def other(store) -> Iterator[Store]:
    with Store(store.path) as opened:
        yield opened


def test_another_connection_sees_what_was_written(store, other, run) -> None:
    store.put_run_fact(run, iteration=3)

    assert other.run(run).fact.iteration == 3


def test_the_data_version_changes_when_another_has_written(store, other, run) -> None:
    before = store.data_version()
    assert store.data_version() == before

    other.wish_stop(run)

    assert store.data_version() != before


def test_a_wish_is_not_changed_by_writing_it(store, wish) -> None:
    asked = wish("fit")
    copy = replace(asked)

    assert store.wish_run(asked) == copy


def test_pages_that_follow_a_run_are_counted_while_their_server_says_so(store) -> None:
    assert store.open_pages("run", 100.0) is None

    store.put_open_pages("run", "here", 2, 100.0)
    store.put_open_pages("run", "there", 1, 108.0)

    assert [store.open_pages("run", now) for now in (101.0, 116.0, 200.0)] == [3, 1, 0]


def test_step_times_are_the_latest_of_each_rank(store) -> None:
    run = store.wish_run(RunWish("run", "run", RunKind.CELL, "")).id
    for rank in (1, 0):
        samples = [Sample("step/data", i, 0.0, i + rank) for i in range(3)]
        store.reports.add_batches([Batch(run, rank, 1, (*samples, Sample("loss", 1, 0.0, 5.0)))])

    assert store.reports.steps(run) == {0: {"data": 2.0}, 1: {"data": 3.0}}
