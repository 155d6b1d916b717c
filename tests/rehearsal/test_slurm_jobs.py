"""Jobs of a real Slurm as a provider asks for them, lists them and ends them; no world starts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from tests.rehearsal.slurm import Site
from tests.waiting import until
from workbench.cloud.slurm.provider import LOOK_SECONDS, REST_SECONDS, Slurm
from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.fleet.model import FleetWish, Machine, MachineState, Needs, Purchase
from workbench.core.fleet.node_provider import CLUSTER, ClusterContext
from workbench.errors import CloudError, MachineError

pytestmark = [pytest.mark.root, pytest.mark.contract, pytest.mark.timeout(120)]

RUNNING, PENDING, GONE = MachineState.RUNNING, MachineState.PENDING, MachineState.GONE
WISH = FleetWish("slurm", nodes=2, slots=1)


class Clock:
    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


def provide(folder: Path, wish: FleetWish = WISH, clock: Clock | None = None) -> Slurm:
    """Return the provider of cluster lab, as a supervisor opens it."""
    context = ClusterContext("lab", lambda: wish, folder, folder, "me")
    return Slurm(context, clock) if clock else Slurm(context)


def ask(cloud: Slurm, count: int = 2) -> str:
    """Ask for nodes, as a fleet does, and return the token; each folder has one of its own."""
    token = sha256(str(cloud._context.folder).encode()).hexdigest()
    purchase = Purchase("lab", token, 0, count, count, ("main",))
    cloud.buy(purchase, cloud.user_data(purchase), (("mine", "yes"),))
    return token


def reached(cloud: Slurm, count: int) -> tuple[Machine, ...]:
    """Return the machines once the agents of so many have dialled in."""

    def found() -> tuple[Machine, ...]:
        there = [one for one in cloud.machines("lab") if one.state is RUNNING and one.reach]
        return tuple(there) if len(there) == count else ()

    return until(found, what=f"{count} nodes", said=lambda: cloud.machines("lab"))


@pytest.fixture
def cloud(site: Site, tmp_path: Path) -> Iterator[Slurm]:
    """Give the provider of a cluster, all of whose jobs are cancelled in the end."""
    cloud = provide(tmp_path)
    yield cloud
    cloud.end([one.id for one in cloud.machines("lab")])
    cloud.forget()
    site.ask("scancel", "-u", "root")
    until(lambda: not site.jobs(), what="the end of all jobs", said=site.jobs)


def test_nodes_of_a_job_take_sessions_and_are_given_back(site: Site, cloud: Slurm) -> None:
    token = ask(cloud)
    first, second = reached(cloud, 2)

    sessions = [cloud.open(first), cloud.open(second)]
    names = {session.run(["uname", "-n"]).output.strip() for session in sessions}
    job_variables = sessions[0].run(["sh", "-c", "env | grep ^SLURM; exit 0"]).output
    assert len(names) == 2
    assert job_variables == ""
    assert {("mine", "yes"), (CLUSTER, "lab")} <= {*first.tags}
    assert first.address != second.address
    assert (first.slots, first.token) == (1, token)
    with pytest.raises(MachineError, match="has not dialled"):
        cloud.open(first)

    keeper = next(one for one in (first, second) if one.address == _batch_address(site))
    other = second if keeper is first else first
    cloud.end([other.id])
    until(lambda: site.jobs("%D") == ["1"], what="one node less", said=site.jobs)
    cloud.end([keeper.id])
    until(lambda: not site.jobs(), what="the end of the job", said=site.jobs)
    assert {one.state for one in cloud.machines("lab")} == {GONE}
    assert cloud.leftovers("lab") == cloud.clean("lab") == ()
    for session in sessions:
        session.close()


def _batch_address(site: Site) -> str:
    [name] = site.jobs("%B")
    return next(host.address for host in site.hosts if host.name == name)


def test_the_same_token_submits_one_job(site: Site, cloud: Slurm, tmp_path: Path) -> None:
    token = ask(cloud, 1)
    ask(cloud, 1)
    cloud.forget()  # as if it had been killed between the call and its record
    (tmp_path / "slurm.json").write_text(f'{{"asked": ["{token}"]}}')
    successor = provide(tmp_path)

    ask(successor, 1)

    assert len(site.jobs()) == 1
    assert len(successor.machines("lab")) == 1
    successor.end([one.id for one in successor.machines("lab")])
    ask(successor, 1)
    until(lambda: not site.jobs(), what="the end of the job", said=site.jobs)
    successor.forget()


def test_a_successor_finds_the_jobs_without_any_record(
    site: Site, cloud: Slurm, tmp_path: Path
) -> None:
    token = ask(cloud, 1)
    cloud.forget()

    [found] = provide(tmp_path).machines("lab")
    [left] = Slurm(ClusterContext("", lambda: WISH, tmp_path, tmp_path)).leftovers()

    assert found.token == token
    assert (left.kind, left.cluster, left.owner) == ("job", "lab", "me")


def test_a_job_that_waits_is_waited_for_and_says_why(site: Site, tmp_path: Path) -> None:
    held = FleetWish("slurm", nodes=1, settings=(("sbatch", "--hold"),))
    clock = Clock()
    cloud = provide(tmp_path, held, clock)
    ask(cloud, 1)
    clock.now += 12 * 3600

    [waiting] = cloud.machines("lab")

    assert (waiting.state, waiting.reach, waiting.launched) == (PENDING, "", 0.0)
    assert "waits in Slurm's queue (JobHeldUser)" in waiting.waits
    cloud.end([waiting.id])
    [ended] = cloud.machines("lab")
    assert ended.launched > ended.ended  # so it costs nothing
    until(lambda: not site.jobs(), what="the end of the job", said=site.jobs)
    cloud.forget()


def test_slurm_predicts_a_start_and_a_node_costs_its_cores(site: Site, tmp_path: Path) -> None:
    wish = FleetWish("slurm", nodes=1, needs=Needs(vcpus=2))
    cloud = provide(tmp_path, wish)
    purchase = Purchase("lab", "trial", 0, 1, 1, ("main",))

    [now] = cloud.permissions(purchase)
    [never] = provide(tmp_path, replace(wish, settings=(("constraint", "nope"),))).permissions(
        purchase
    )
    site.ask("sbatch", "--exclusive", "-N", "3", "-t", "60", "--wrap", "sleep 600")
    until(lambda: site.jobs("%T") == ["RUNNING"], what="the other job", said=site.jobs)
    [later] = cloud.permissions(purchase)
    waited = site.jobs()
    site.ask("scancel", "-n", "wrap")
    ask(cloud, 1)
    [node] = reached(cloud, 1)
    until(
        lambda: cloud.machines("lab")[0].price == 2.0,
        what="a price",
        said=lambda: cloud.machines("lab"),
    )

    assert (now.ok, now.found) == (True, "Slurm would start the job now.")
    assert (never.ok, "--constraint" in never.remedy) == (False, True)
    assert later.found.startswith("Slurm would start the job about ")
    assert len(waited) == 1  # nothing was submitted
    [offer] = cloud.offers(wish.needs)
    assert (offer.price, node.type) == (2.0, offer.type)
    cloud.end([node.id])
    cloud.forget()
    until(lambda: not site.jobs(), what="the end of all jobs", said=site.jobs)


@pytest.mark.parametrize(
    ("settings", "needs", "remedy"),
    [
        ((("partition", "nope"),), Needs(), "--partition"),
        ((("constraint", "nope"),), Needs(), "--constraint"),
        ((("gres", "gpu:a100:1"),), Needs(), "--gres"),
        ((), Needs(memory=1000.0), "--memory"),
    ],
)
def test_each_refusal_is_one_sentence_with_the_remedy(
    site: Site, tmp_path: Path, settings: tuple[tuple[str, str], ...], needs: Needs, remedy: str
) -> None:
    cloud = provide(tmp_path, FleetWish("slurm", nodes=1, settings=settings, needs=needs))

    with pytest.raises(CloudError) as refusal:
        ask(cloud, 1)

    assert refusal.value.kind == ErrorKind.CONFIGURATION
    assert remedy in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert cloud.machines("lab") == ()
    cloud.forget()


@pytest.fixture
def asked(
    site: Site, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], int]:
    """Count the calls of squeue, which fails while there is a file of the name ``down``."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "squeue").write_text(
        f'#!/bin/sh\necho x >> {folder}/calls\ntest ! -e {folder}/down || exit 1\n'
        'exec /usr/bin/squeue "$@"\n'
    )  # fmt: skip
    (folder / "squeue").chmod(0o755)
    (folder / "calls").touch()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("FOLDER_OF_SQUEUE", str(folder))
    return lambda: len((folder / "calls").read_text().splitlines())


def test_slurm_is_asked_twice_a_minute_at_most(
    site: Site, asked: Callable[[], int], tmp_path: Path
) -> None:
    clock = Clock()
    cloud = provide(tmp_path, clock=clock)
    ask(cloud)
    for _ in range(int(2 * LOOK_SECONDS)):
        cloud.machines("lab")
        cloud.read_notices()
        clock.now += 1.0
    settling = asked()
    sessions = [cloud.open(one) for one in reached(cloud, 2)]
    for _ in range(int(2 * REST_SECONDS / 10)):
        cloud.machines("lab")
        clock.now += 10.0
    resting = asked() - settling

    Path(os.environ["FOLDER_OF_SQUEUE"], "down").touch()
    clock.now += REST_SECONDS
    with pytest.raises(CloudError) as refusal:
        cloud.machines("lab")
    Path(os.environ["FOLDER_OF_SQUEUE"], "down").unlink()

    assert settling <= 3
    assert resting <= 3
    assert refusal.value.kind == ErrorKind.THROTTLING
    assert {one.state for one in cloud.machines("lab")} == {RUNNING}
    cloud.end([one.id for one in cloud.machines("lab")])
    for session in sessions:
        session.close()
    cloud.forget()
    until(lambda: not site.jobs(), what="the end of the job", said=site.jobs)


def test_the_doctor_tries_one_job(site: Site, cloud: Slurm) -> None:
    findings = cloud.examine()

    assert all(finding.ok for finding in findings), findings
    assert [finding.check.split()[0] for finding in findings] == [
        "Slurm", "partition", "environment", "connection",
    ]  # fmt: skip


def test_the_offer_is_what_the_partition_has(site: Site, tmp_path: Path) -> None:
    [offer] = provide(tmp_path).offers(Needs())

    assert provide(tmp_path).offers(Needs(vcpus=5)) == ()
    assert provide(tmp_path).offers(Needs(gpus=1)) == ()
    assert (offer.type, offer.vcpus, offer.memory, offer.slots) == ("main", 4, 7.8125, 1)


@pytest.mark.weekly
def test_a_job_whose_script_is_gone_ends_with_the_leases_of_its_agents(
    own_site: Site, tmp_path: Path
) -> None:
    wish = replace(WISH, settings=(("lease", 5.0),))
    cloud = provide(tmp_path, wish)
    ask(cloud)
    sessions = [cloud.open(one) for one in reached(cloud, 2)]
    [name] = own_site.jobs("%B")

    own_site.host_named(name).stop()
    cloud.forget()
    for session in sessions:
        session.close()

    until(lambda: not own_site.jobs(), what="the end of the job", said=own_site.jobs, seconds=100.0)
