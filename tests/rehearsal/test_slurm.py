"""A cluster on a real Slurm: its jobs are the nodes, and a training outlives them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.rehearsal.listed_hosts import start_training
from tests.rehearsal.slurm import Site
from tests.waiting import until
from workbench.core.cluster.model import ClusterState
from workbench.core.cluster.size import Size
from workbench.core.fleet.model import FleetWish, Needs, Node, NodeState
from workbench.core.run.model import Run, RunKind, RunState
from workbench.core.run.run_options import RunOptions
from workbench.errors import PriceQuestion
from workbench.requests.cluster import ask_cluster, ask_down, ask_size
from workbench.requests.run import ask_run, ask_stop
from workbench.requests.supervisor import supervisor_is_awake, supervisor_pid
from workbench.store import Store

pytestmark = [pytest.mark.root, pytest.mark.mpi, pytest.mark.timeout(240)]

NAME, OTHER = "queued", "other"
TRAINING = Path(__file__).parents[1] / "supervisor" / "programs" / "slow_training.py"
MEETING = Path(__file__).parent / "programs" / "meeting.py"


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
            until(lambda: not supervisor_is_awake(name), what="the end of the supervisor")
    until(lambda: not alive(site, name), what="the end of all jobs", said=site.jobs)


def alive(site: Site, name: str = NAME) -> list[str]:
    """Return a cluster's jobs that have not ended; those whose nodes are tidied up have."""
    ours = [line for line in site.jobs("%i|%T|%D|%j") if f"workbench-{name}-" in line]
    return [line.rpartition("|")[0] for line in ours if "COMPLETING" not in line]


def wait_ready(store: Store, ranks: int, name: str = NAME) -> None:
    """Wait for a world of so many ranks."""

    def is_ready() -> bool:
        fact = store.cluster_fact(name)
        return fact.state is ClusterState.READY and fact.ranks == ranks

    until(
        is_ready,
        what=f"{ranks} ranks",
        said=lambda: f"{store.cluster_fact(name)} {nodes(store, name)}",
    )


def nodes(store: Store, name: str = NAME) -> list[Node]:
    """Return the nodes that are not gone."""
    return [node for node in store.fleets.nodes(name) if node.state is not NodeState.GONE]


OF_A_JOB = """
import os
from mpi4py import MPI
variables = [name for name in os.environ if name.startswith(("SLURM", "PMI_RANK"))]
print(MPI.COMM_WORLD.allreduce(1), "WORKBENCH_STUB" in os.environ, variables)
"""


GREEDY = """
from mpi4py import MPI
if MPI.COMM_WORLD.rank == 2:
    largest = bytearray(b"1") * (3 << 30)
MPI.COMM_WORLD.barrier()
"""


def perform(store: Store, source: str, name: str = NAME) -> Run:
    """Run a cell to its end."""
    run = ask_run(store, kind=RunKind.CELL, source=source, cluster=name).id
    until(lambda: store.run(run).fact.state.ended, what="its end", said=lambda: store.run(run))
    return store.run(run)


def printed(store: Store, source: str, name: str = NAME) -> list[str]:
    """Run a cell to its end, and return what each rank printed."""
    run = perform(store, source, name)
    assert run.fact.state is RunState.FINISHED, run
    texts: dict[int, str] = {}
    for piece in store.reports.output(run.id):
        texts[piece.rank] = texts.get(piece.rank, "") + piece.text
    return [*texts.values()]


def test_a_training_on_two_jobs_outlives_one_of_them(site: Site) -> None:
    fleet = FleetWish("slurm", nodes=1, slots=1, settings=(("lease", 60.0),))
    began = time.monotonic()
    with cluster(site, fleet) as store:
        wait_ready(store, 1)
        ready = time.monotonic() - began
        with pytest.raises(PriceQuestion) as question:
            ask_size(store, Size(nodes=2), cluster=NAME)
        ask_size(store, Size(nodes=2), cluster=NAME, agreed=question.value.price)
        wait_ready(store, 2)
        jobs = site.jobs("%i|%D")
        seen = printed(store, OF_A_JOB)
        run = start_training(store, NAME)

        def said() -> str:
            return f"{store.run(run)} {store.fleets.nodes(NAME)}"

        lost = next(node for node in nodes(store) if not node.head)
        site.ask("scancel", lost.id.partition(".")[0])

        wait_moved(store, run)
        until(lambda: store.run(run).fact.ranks == 2, what="a world with the next job", said=said)
        ask_stop(store, run, NAME)
        until(lambda: store.run(run).fact.state.ended, what="the end", said=said)
    print(f"{ready:.1f} s from the request to the first rank")

    assert "2 core-hours/h, 1 core-hours/h now" in str(question.value)
    assert str(question.value).endswith("Slurm would start the job now.")
    assert [one.partition("|")[2] for one in jobs] == ["1", "1"]
    assert seen == ["2 True []\n"] * 2
    assert store.run(run).fact.state is RunState.STOPPED


def test_a_training_outlives_its_supervisor_a_node_and_that_of_the_script(own_site: Site) -> None:
    site, fleet = own_site, FleetWish("slurm", nodes=3, slots=1)
    with cluster(site, fleet) as store:
        wait_ready(store, 3)
        run = start_training(store, NAME)
        [(job, script)] = [line.split("|") for line in site.jobs("%i|%B")]

        first, before = supervisor_pid(NAME), store.run(run).fact.iteration
        os.kill(first, signal.SIGKILL)
        until(
            lambda: store.run(run).fact.iteration > before + 20,
            what="steps",
            said=lambda: store.run(run),
        )
        followed, attempt = supervisor_pid(NAME), store.run(run).fact.attempt

        others = [host for host in site.hosts if host.name != script]
        others[0].stop()
        wait_moved(store, run, attempt + 1)
        site.host_named(script).stop()
        wait_moved(store, run, attempt + 2)
        until(lambda: f"{job}|RUNNING|1" in alive(site), what="a job of one node", said=site.jobs)

        assert (followed not in (0, first), attempt) == (True, 1)
        [left] = [node for node in nodes(store) if node.address == others[1].address]
        assert left.id.partition(".")[0] == job
    seen = {
        point.iteration for point in store.reports.points(run)
        if (point.rank, point.name) == (0, "main/loss")
    }  # fmt: skip
    assert seen == {*range(1, max(seen) + 1)}


def test_worlds_of_one_job_are_beside_each_other_and_hand_a_training_over(site: Site) -> None:
    fleet = FleetWish("slurm", nodes=2, slots=2)
    with cluster(site, fleet) as store:
        wait_ready(store, 4)
        run = start_training(store, NAME)
        ask_size(store, Size(ranks=2), cluster=NAME)
        wait_moved(store, run)
        ranks, lost = store.run(run).fact.ranks, lost_steps(store, run)
        ask_stop(store, run, NAME)

        meeting = [meet(store, own, other) for own, other in (("a", "b"), ("b", "a"))]
        until(
            lambda: all(store.run(one).fact.state.ended for one in meeting), what="both",
            said=lambda: [store.run(one) for one in meeting],
        )  # fmt: skip

        assert (ranks, lost <= 0) == (2, True)
        assert {store.run(one).fact.state for one in meeting} == {RunState.FINISHED}
        assert len(site.jobs()) == 1


def meet(store: Store, own: str, other: str) -> str:
    """Begin a script on one rank that ends once the other one is there too."""
    return ask_run(
        store, RunOptions(ranks=1, arguments=(own, other)), kind=RunKind.SCRIPT, cluster=NAME,
        source=MEETING.read_text(encoding="utf-8"), path=str(MEETING), folder=str(Path.home()),
    ).id  # fmt: skip


@pytest.mark.weekly
def test_the_nodes_that_a_job_did_not_get_are_asked_for_and_join_its_world(site: Site) -> None:
    site.ask("sbatch", "-w", site.hosts[2].name, "--exclusive", "--wrap", "sleep 600")
    until(lambda: site.jobs("%T") == ["RUNNING"], what="the other job", said=site.jobs)
    fleet = FleetWish("slurm", nodes=3, min_nodes=1, slots=1, starts_early=True)
    with cluster(site, fleet) as store:
        wait_ready(store, 2)
        began = site.jobs("%j|%T|%D")
        run = start_training(store, NAME)

        until(lambda: "PENDING" in site.jobs("%T"), what="the next job", said=site.jobs)
        site.ask("scancel", "-n", "wrap")
        wait_ready(store, 3)
        wait_moved(store, run)

        assert [line.partition("|")[2] for line in began if line[:4] != "wrap"] == ["RUNNING|2"]
        assert sorted(site.jobs("%T|%D")) == ["RUNNING|1", "RUNNING|2"]
        assert (store.run(run).fact.ranks, lost_steps(store, run)) == (3, 0)


@pytest.mark.weekly
def test_a_budget_of_core_hours_ends_the_jobs(site: Site) -> None:
    fleet = FleetWish("slurm", nodes=1, slots=1)
    with cluster(site, fleet) as store:
        wait_ready(store, 1)
        run = start_training(store, NAME)
        until(lambda: nodes(store)[0].price == 1.0, what="a price", said=lambda: nodes(store))

        ask_cluster(store, 0, cluster=NAME, fleet=replace(fleet, budget=0.051))

        until(lambda: not site.jobs(), what="the end of the job", said=site.jobs)
        [node] = store.fleets.nodes(NAME, gone=True)
        assert "of the budget of 0.051 core-hours are spent" in node.message
        (first, *_) = store.attempts.past(run)
        assert store.attempts.newest_snapshot(run) >= first.iteration > 0


def wait_moved(store: Store, run: str, attempt: int = 2) -> None:
    """Wait until a training continues in a later attempt."""

    def has_moved() -> bool:
        fact = store.run(run).fact
        is_on = fact.attempt >= attempt and fact.state is RunState.RUNNING
        return is_on and fact.iteration > fact.resumed_at >= 0

    until(
        has_moved,
        what="the next attempt",
        said=lambda: f"{store.run(run)} {store.fleets.nodes(NAME)}",
        seconds=150.0,
    )


def lost_steps(store: Store, run: str) -> int:
    """Return how many steps of the first attempt are done again; below 0 if not all were seen."""
    (first, *_) = store.attempts.past(run)
    return first.iteration - store.run(run).fact.resumed_at


@pytest.mark.weekly
def test_a_preempted_job_is_a_node_with_a_notice(site: Site) -> None:
    fleet = FleetWish("slurm", nodes=1, slots=1)
    with cluster(site, fleet) as store:
        wait_ready(store, 1)
        run = start_training(store, NAME)
        [name] = site.jobs("%N")

        site.ask("sbatch", "-p", "urgent", "-w", name, "--exclusive", "--wrap", "sleep 600")
        began = time.monotonic()
        wait_moved(store, run)

        print(f"{time.monotonic() - began:.1f} s from the other job to the next step in ours")
        assert lost_steps(store, run) <= 0


@pytest.mark.weekly
def test_a_job_that_is_preempted_at_once_costs_the_steps_since_a_snapshot(site: Site) -> None:
    fleet = FleetWish("slurm", nodes=1, slots=1, settings=(("partition", "sudden"),))
    with cluster(site, fleet) as store:
        wait_ready(store, 1)
        run = start_training(store, NAME)
        [name] = site.jobs("%N")
        saved = store.attempts.newest_snapshot(run)

        site.ask("sbatch", "-p", "urgent", "-w", name, "--exclusive", "--wrap", "sleep 600")
        wait_moved(store, run)

        assert saved <= store.run(run).fact.resumed_at


@pytest.mark.weekly
@pytest.mark.timeout(400)
def test_a_training_outlives_the_time_limit_of_its_job(site: Site) -> None:
    fleet = FleetWish("slurm", nodes=1, slots=1, settings=(("walltime", 120.0),))
    with cluster(site, fleet) as store:
        wait_ready(store, 1)
        run = start_training(store, NAME)
        [first] = site.jobs("%i")

        until(lambda: len(site.jobs("%i")) == 2, what="the next job", said=site.jobs, seconds=180.0)
        wait_moved(store, run)

        until(lambda: first not in site.jobs("%i"), what="the end of the first job", said=site.jobs)
        assert lost_steps(store, run) <= 0


@pytest.mark.weekly
def test_a_suspended_job_continues_where_it_was(site: Site) -> None:
    fleet = FleetWish("slurm", nodes=1, slots=1)
    with cluster(site, fleet) as store:
        wait_ready(store, 1)
        run = start_training(store, NAME)
        [job] = site.jobs("%i")

        site.ask("scontrol", "suspend", job)
        time.sleep(30.0)  # as long as others need the nodes
        before = store.run(run).fact.iteration
        site.ask("scontrol", "resume", job)

        until(
            lambda: store.run(run).fact.iteration > before + 5,
            what="steps",
            said=lambda: store.run(run),
        )
        assert [node.id for node in nodes(store)] == [f"{job}.0"]


@pytest.mark.weekly
def test_clusters_on_the_same_nodes_and_home_leave_each_other_alone(site: Site) -> None:
    same = (("sbatch", f"--nodelist={site.hosts[0].name},{site.hosts[1].name}"),)
    fleet = FleetWish("slurm", nodes=2, slots=1, settings=same)
    with cluster(site, fleet) as store:
        wait_ready(store, 2)
        run = start_training(store, NAME)
        with cluster(site, fleet, OTHER) as other:
            wait_ready(other, 2, OTHER)
            seen = printed(other, OF_A_JOB, OTHER)
            start_training(other, OTHER)
        before = store.run(run).fact

        until(
            lambda: store.run(run).fact.iteration > before.iteration + 20, what="steps",
            said=lambda: store.run(run),
        )  # fmt: skip

        assert seen == ["2 True []\n"] * 2
        assert (before.attempt, store.run(run).fact.attempt) == (1, 1)


@pytest.mark.weekly
def test_warm_ranks_are_in_the_groups_of_their_job_which_limit_them(grouped_site: Site) -> None:
    fleet = FleetWish("slurm", nodes=2, slots=2, needs=Needs(memory=1.0))
    with cluster(grouped_site, fleet) as store:
        wait_ready(store, 4)
        [job] = grouped_site.jobs("%i")

        seen = printed(store, OF_A_JOB)
        groups = printed(store, "print(open('/proc/self/cgroup').read())")
        greedy = perform(store, GREEDY)
        wait_ready(store, 4)
        again = printed(store, OF_A_JOB)

        assert seen == again == ["4 True []\n"] * 4
        for text in groups:
            assert text.count(f"/uid_0/job_{job}/step_0") == 2  # freezer and memory
        assert greedy.fact.state is RunState.FAILED
        assert "memory" in greedy.fact.message

    def listed() -> str:
        return "".join(host.run("ps", "-e", "-o", "args=") for host in grouped_site.hosts)

    until(lambda: "-m workbench" not in listed(), what="the end of all ranks", said=listed)
