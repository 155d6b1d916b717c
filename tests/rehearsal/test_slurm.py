"""A cluster on a real Slurm: its jobs are the nodes, and a training outlives them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.rehearsal.hosts import until
from tests.rehearsal.slurm import Site
from workbench.core.cluster.model import ClusterState
from workbench.core.fleet.model import FleetWish, Node, NodeState
from workbench.core.recovery.resumption import NONE
from workbench.core.run.model import RunKind, RunState
from workbench.core.run.run_options import RunOptions
from workbench.requests.cluster import ask_cluster, ask_down
from workbench.requests.run import ask_run, ask_stop
from workbench.requests.supervisor import supervisor_is_awake
from workbench.store import Store

pytestmark = [pytest.mark.root, pytest.mark.mpi, pytest.mark.timeout(240)]

NAME = "queued"
TRAINING = Path(__file__).parents[1] / "supervisor" / "programs" / "slow_training.py"


@contextlib.contextmanager
def cluster(site: Site, fleet: FleetWish, name: str = NAME) -> Iterator[Store]:
    """Give the store of a cluster; at the end nothing of it is left in Slurm."""
    with Store() as store:
        ask_cluster(store, 0, cluster=name, fleet=fleet)
        try:
            yield store
        finally:
            site.ask("scancel", "-n", "wrap")
            ask_down(store, cluster=name)
            until(lambda: not supervisor_is_awake(name), "the end of the supervisor")
    until(lambda: not site.jobs(), "the end of all jobs", site.jobs)


def wait_ready(store: Store, ranks: int, name: str = NAME) -> None:
    """Wait for a world of so many ranks."""

    def is_ready() -> bool:
        fact = store.cluster_fact(name)
        return fact.state is ClusterState.READY and fact.ranks == ranks

    until(is_ready, f"{ranks} ranks", lambda: f"{store.cluster_fact(name)} {nodes(store, name)}")


def nodes(store: Store, name: str = NAME) -> list[Node]:
    """Return the nodes that are not gone."""
    return [node for node in store.fleets.nodes(name) if node.state is not NodeState.GONE]


def test_a_training_on_two_jobs_outlives_one_of_them(site: Site) -> None:
    fleet = FleetWish("slurm", nodes=1, slots=1, settings=(("lease", 60.0),))
    began = time.monotonic()
    with cluster(site, fleet) as store:
        wait_ready(store, 1)
        ready = time.monotonic() - began
        ask_cluster(store, 0, cluster=NAME, fleet=replace(fleet, nodes=2))
        wait_ready(store, 2)
        jobs = site.jobs("%i|%D")
        run = ask_run(
            store, kind=RunKind.CELL, source=TRAINING.read_text(encoding="utf-8"), cluster=NAME,
            options=RunOptions(parameters=(("epochs", 1_000),)),
        ).id  # fmt: skip

        def said() -> str:
            return f"{store.run(run)} {store.fleets.nodes(NAME)}"

        until(lambda: store.attempts.newest_snapshot(run) != NONE, "a snapshot", said)

        lost = next(node for node in nodes(store) if not node.head)
        site.ask("scancel", lost.id.partition(".")[0])

        def continued() -> bool:
            fact = store.run(run).fact
            return fact.attempt >= 2 and fact.state is RunState.RUNNING and fact.iteration > 0

        until(continued, "steps on the other job", said)
        until(lambda: store.run(run).fact.ranks == 2, "a world with the next job", said)
        ask_stop(store, run, NAME)
        until(lambda: store.run(run).fact.state.ended, "the end", said)
    print(f"{ready:.1f} s from the request to the first rank")

    assert [one.partition("|")[2] for one in jobs] == ["1", "1"]
    assert store.run(run).fact.state is RunState.STOPPED


@pytest.mark.weekly
def test_a_budget_of_core_hours_ends_the_jobs(site: Site) -> None:
    fleet = FleetWish("slurm", nodes=1, slots=1)
    with cluster(site, fleet) as store:
        wait_ready(store, 1)
        run = start_training(store)
        until(lambda: nodes(store)[0].price == 1.0, "a price", lambda: nodes(store))

        ask_cluster(store, 0, cluster=NAME, fleet=replace(fleet, budget=0.051))

        until(lambda: not site.jobs(), "the end of the job", site.jobs)
        [node] = store.fleets.nodes(NAME, gone=True)
        assert "of the budget of 0.051 core-hours are spent" in node.message
        (first, *_) = store.attempts.past(run)
        assert store.attempts.newest_snapshot(run) >= first.iteration > 0


def start_training(store: Store) -> str:
    """Begin a training that has a snapshot, and return its run."""
    run = ask_run(
        store, kind=RunKind.CELL, source=TRAINING.read_text(encoding="utf-8"), cluster=NAME,
        options=RunOptions(parameters=(("epochs", 1_000),)),
    ).id  # fmt: skip
    until(lambda: store.attempts.newest_snapshot(run) != NONE, "a snapshot", store.run(run))
    return run


def wait_moved(store: Store, run: str, attempt: int = 2) -> None:
    """Wait until a training continues in a later attempt."""

    def has_moved() -> bool:
        fact = store.run(run).fact
        is_on = fact.attempt >= attempt and fact.state is RunState.RUNNING
        return is_on and fact.iteration > fact.resumed_at >= 0

    until(
        has_moved, "the next attempt", lambda: f"{store.run(run)} {store.fleets.nodes(NAME)}",
        seconds=150.0,
    )  # fmt: skip


def lost_steps(store: Store, run: str) -> int:
    """Return how many steps of the first attempt are done again; below 0 if not all were seen."""
    (first, *_) = store.attempts.past(run)
    return first.iteration - store.run(run).fact.resumed_at


@pytest.mark.weekly
def test_a_preempted_job_is_a_node_with_a_notice(site: Site) -> None:
    fleet = FleetWish("slurm", nodes=1, slots=1)
    with cluster(site, fleet) as store:
        wait_ready(store, 1)
        run = start_training(store)
        [name] = site.jobs("%N")

        site.ask("sbatch", "-p", "urgent", "-w", name, "--exclusive", "--wrap", "sleep 600")
        began = time.monotonic()
        wait_moved(store, run)

        print(f"{time.monotonic() - began:.1f} s from the other job to the next step in ours")
        assert lost_steps(store, run) <= 0


@pytest.mark.weekly
@pytest.mark.timeout(400)
def test_a_training_outlives_the_time_limit_of_its_job(site: Site) -> None:
    fleet = FleetWish("slurm", nodes=1, slots=1, settings=(("walltime", 120.0),))
    with cluster(site, fleet) as store:
        wait_ready(store, 1)
        run = start_training(store)
        [first] = site.jobs("%i")

        until(lambda: len(site.jobs("%i")) == 2, "the next job", site.jobs, seconds=180.0)
        wait_moved(store, run)

        until(lambda: first not in site.jobs("%i"), "the end of the first job", site.jobs)
        assert lost_steps(store, run) <= 0


@pytest.mark.weekly
def test_a_suspended_job_continues_where_it_was(site: Site) -> None:
    fleet = FleetWish("slurm", nodes=1, slots=1)
    with cluster(site, fleet) as store:
        wait_ready(store, 1)
        run = start_training(store)
        [job] = site.jobs("%i")

        site.ask("scontrol", "suspend", job)
        time.sleep(30.0)  # as long as others need the nodes
        before = store.run(run).fact.iteration
        site.ask("scontrol", "resume", job)

        until(lambda: store.run(run).fact.iteration > before + 5, "steps", store.run(run))
        assert [node.id for node in nodes(store)] == [f"{job}.0"]
