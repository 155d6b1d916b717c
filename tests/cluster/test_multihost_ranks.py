"""Worlds on several hosts: a lost host is named, ended worlds leave nothing, no secret is shown."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import PRELUDE, PROGRAMS, Bench, Several
from tests.rehearsal.hosts import HOME, Hosts
from tests.waiting import until
from workbench.cluster import node_agent, remote_hosts
from workbench.cluster.mpi_cluster import MpiCluster
from workbench.cluster.multihost import folder_of
from workbench.cluster.remote_hosts import CLUSTER_FOLDER, Login
from workbench.core.cluster.generation import WorldState
from workbench.core.run.rank_protocol import Interrupt
from workbench.core.world.remote import LostSession
from workbench.core.world.world import Host

pytestmark = [pytest.mark.mpi, pytest.mark.root]
NOTICED_SECONDS = 15.0


# Ranks that are cut off end after so many seconds.
SOON = pytest.mark.parametrize("several", [8.0], indirect=True, ids=["soon"])


@pytest.fixture
def several(possible: None, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Several]:
    patience = getattr(request, "param", 20.0)
    with (
        Hosts(3) as hosts,
        contextlib.closing(Several(hosts, tmp_path, patience=patience)) as several,
    ):
        yield several


@pytest.fixture(scope="module")
def shared(
    possible: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Several, Bench, int]]:
    """Give a world of three ranks on three hosts, which a test must leave whole.

    They share a home, as in many laboratories: what lies there must be of all hosts.
    """
    folder, home = (tmp_path_factory.mktemp(name) for name in ("several", "home"))
    with Hosts(3, shared=[home]) as hosts, contextlib.closing(Several(hosts, folder)) as several:
        for host in hosts:
            host.run("ln", "-s", str(home), f"{HOME}/.workbench")
            host.run("ln", "-s", str(home), f"{HOME}/.local")
        bench = several.bench()
        yield several, bench, bench.ready(3)


def place(several: Several) -> str:
    """Return the folder of the cluster on each host."""
    return folder_of(several.cluster._key())


def ended(bench: Bench, generation: int) -> None:
    bench.cluster.end_world(generation)
    bench.until(lambda: generation not in {f.generation for f in bench.cluster.observe()} or None)


def over(bench: Bench, begun: set[int]) -> bool | None:
    """Return whether these worlds have ended without having been ready."""
    found = {fact.generation: fact for fact in bench.cluster.observe()}
    assert not any(fact.state is WorldState.READY for fact in found.values())
    begun -= {g for g, fact in found.items() if fact.state is WorldState.ENDED}
    return True if not begun else None


def printed(bench: Bench, generation: int, source: str) -> dict[int, str]:
    found = bench.batches_until_ended(bench.submit(generation, source), 3)
    return {n: "".join(c.text for b in batches for c in b.chunks) for n, batches in found.items()}


def test_each_rank_is_on_a_host_of_its_own_and_they_compute_together(shared) -> None:
    several, bench, generation = shared

    source = "import socket\nprint(socket.gethostname(), MPI.COMM_WORLD.allreduce(rank + 1))"

    assert printed(bench, generation, source) == {
        n: f"{host.name} 6\n" for n, host in enumerate(several.hosts)
    }


def test_ranks_are_forked_and_their_stubs_stand_for_them(shared) -> None:
    several, bench, generation = shared

    said = printed(bench, generation, "import os\nprint(os.environ['WORKBENCH_STUB'])")

    for number, host in enumerate(several.hosts):
        stub, parent = said[number].split()
        listed = host.run("ps", "-ww", "-o", "ppid=,args=", "-p", stub).split()
        assert listed[0] == parent
        assert "fork_stub.py" in " ".join(listed)


def test_no_daemon_takes_a_connection_and_later_runs_work(shared) -> None:
    several, bench, generation = shared

    program = [sys.executable, str(PROGRAMS / "open_daemons.py")]
    found = [json.loads(host.run(*program)) for host in several.hosts]
    assert found[0]["listening"]
    assert [host["open"] for host in found] == [[], [], []]
    assert set(printed(bench, generation, "print(MPI.COMM_WORLD.allreduce(1))").values()) == {"3\n"}


def test_torch_finds_the_head_where_the_other_hosts_reach_it(shared) -> None:
    several, bench, generation = shared

    said = printed(bench, generation, (PROGRAMS / "head_address.py").read_text())

    assert said == dict.fromkeys(range(3), f"{several.hosts[0].address} network\n")


def test_a_folder_that_a_host_lacks_is_reported_once_a_run_and_the_run_continues(shared) -> None:
    several, bench, generation = shared
    several.hosts[0].run("mkdir", "-p", "/tmp/work")

    run = bench.submit(generation, "report(loss=1)", folder="/tmp/work")
    found = bench.batches_until_ended(run, 3)

    text = {n: "".join(c.text for b in batches for c in b.chunks) for n, batches in found.items()}
    assert text[0] == ""
    assert text[1] == (
        f"/tmp/work cannot be entered on {several.hosts[1].name} (No such file or directory), "
        "so the run is in /root; give files by a path that all hosts have.\n"
    )
    assert all(batches[-1].ending.state == "finished" for batches in found.values())


def test_no_secret_is_seen_in_a_process_list_or_by_another_user(shared) -> None:
    several, _, _ = shared
    security = several.folder / "profile" / "security" / "ipcontroller-engine.json"
    connection = json.loads(security.read_text())
    secrets = [connection["curve_serverkey"], several.hosts.key.splitlines()[1]]

    for host in several.hosts:
        listed = host.run("ps", "axww", "-o", "args=")
        found = host.run("find", place(several), "-type", "f", "-printf", "%m %p\n")
        assert not any(secret in listed for secret in secrets)
        assert host.run("stat", "-c", "%a", place(several)).strip() == "700"
        if host is several.hosts[0]:
            modes = dict(reversed(line.split()) for line in found.splitlines())
            kept = {Path(path).name: mode for path, mode in modes.items() if "/g1/" in path}
            assert kept == dict.fromkeys(
                ("hosts", "ssh_config", "known_hosts", "key", "output.log", "pid"), "600"
            )


def test_the_controllers_keys_go_through_no_daemon_and_are_kept_on_no_host(shared) -> None:
    several, bench, generation = shared
    security = several.folder / "profile" / "security" / "ipcontroller-engine.json"
    key = json.loads(security.read_text())["curve_serverkey"]
    daemons = "cat /proc/[0-9]*/environ; cat /proc/[0-9]*/cmdline"

    known = printed(bench, generation, (PROGRAMS / "known_keys.py").read_text())

    assert set(known.values()) == {"[]\n"}
    for host in several.hosts:
        assert key not in host.run("sh", "-c", f"({daemons}) 2> /dev/null | tr '\\0' '\\n'")
        until(lambda host=host: key not in host.run("grep", "-rs", ".", place(several)))


def test_a_cluster_is_sized_to_four_and_to_two_by_the_next_worlds(shared) -> None:
    _, bench, generation = shared
    run = bench.submit(generation, "for i in range(2000):\n    report(loss=i)\n    sleep(0.01)")
    bench.until(lambda: bench.batches(run).get(0))

    four = bench.ready(4)
    added = bench.submit(four, "report(loss=MPI.COMM_WORLD.allreduce(1))")
    found = bench.batches_until_ended(added, 4)
    two = bench.ready(2)
    lessened = bench.submit(two, "report(loss=MPI.COMM_WORLD.allreduce(1))")
    fewer = bench.batches_until_ended(lessened, 2)

    assert {s.value for batches in found.values() for b in batches for s in b.samples} == {4.0}
    assert {s.value for batches in fewer.values() for b in batches for s in b.samples} == {2.0}
    assert not any(batch.ending for batch in bench.batches(run)[0])
    for world in (four, two):
        ended(bench, world)
    bench.cluster.send(generation, range(3), Interrupt(run))
    bench.batches_until_ended(run, 3)


LEAVES = """
import subprocess
subprocess.Popen(["sleep", "987"], start_new_session=True)
"""


def test_what_a_cell_left_on_any_host_ends_with_the_world(shared) -> None:
    # The last one with this world, which it ends; where it is repeated, there is none any more.
    several, bench, generation = shared
    if generation not in {fact.generation for fact in bench.cluster.observe()}:
        generation = bench.ready(3)
    bench.batches_until_ended(bench.submit(generation, LEAVES), 3)
    running = [line for line in several.left() if "sleep 987" in line]

    ended(bench, generation)

    assert len(running) == 3
    until(lambda: not several.left(), what="the end of the rest", said=several.left, seconds=20.0)


@pytest.mark.contract
def test_a_rank_that_is_killed_is_reported_with_its_host(several) -> None:
    bench = several.bench()
    generation = bench.ready(3)

    bench.submit(generation, "sleep(0.2)\nif rank == 1:\n    kill()\nbarrier()")
    fact = bench.world_until(generation, lambda fact: bool(fact.deaths))

    assert (fact.deaths[0].rank, fact.deaths[0].host) == (1, several.hosts[1].name)
    assert fact.state in (WorldState.BROKEN, WorldState.ENDED)
    ended(bench, generation)
    until(lambda: not several.left(), what="the end of the rest", said=several.left, seconds=20.0)


@SOON
@pytest.mark.weekly  # a pulled cable alone is tried daily
def test_what_a_cell_left_on_a_host_that_is_cut_off_ends_too(several) -> None:
    bench = several.bench()
    generation = bench.ready(2)
    bench.batches_until_ended(bench.submit(generation, LEAVES), 2)

    several.hosts[1].cut()
    bench.world_until(generation, lambda fact: bool(fact.deaths))
    ended(bench, generation)

    until(lambda: not several.left(), what="the end of the rest", said=several.left)


def test_a_crash_shows_the_stack_that_it_left_on_its_host(several) -> None:
    bench = several.bench()
    generation = bench.ready(2)
    crash = "def fall():\n    import ctypes\n    ctypes.string_at(0)\n"

    bench.submit(generation, f"{crash}if rank == 1:\n    fall()\nbarrier()")
    fact = bench.world_until(generation, lambda fact: bool(fact.deaths))

    assert fact.deaths[0].rank == 1
    assert "Segmentation fault" in fact.deaths[0].cause
    assert "in fall" in fact.deaths[0].trace
    ended(bench, generation)


# In a blocking call of MPI, a rank takes all of a core until it is ended.
BLOCKED = "while True:\n    barrier()\n    sleep(0.05)"
WAITING = """
while True:
    begun = MPI.COMM_WORLD.Ibarrier()
    while not begun.Test():
        sleep(0.05)
"""


@pytest.mark.contract
@pytest.mark.parametrize(
    ("number", "cell"),
    [
        pytest.param(0, BLOCKED, marks=pytest.mark.weekly, id="the head"),
        pytest.param(1, WAITING, id="another host"),
    ],
)
@SOON
def test_a_host_whose_cable_is_pulled_is_named_and_nothing_is_left(several, number, cell) -> None:
    bench = several.bench()
    generation = bench.ready(3)
    cut = several.hosts[number]
    bench.submit(generation, cell)

    cut.cut()
    began = time.monotonic()
    fact = bench.world_until(generation, lambda fact: bool(fact.deaths))

    assert time.monotonic() - began < NOTICED_SECONDS
    assert (fact.deaths[0].rank, fact.deaths[0].host) == (number, cut.name)
    assert fact.deaths[0].cause.startswith(f"{cut.name} ")
    assert "out of reach" in fact.deaths[0].cause
    ended(bench, generation)
    until(lambda: not several.left(), what="the end of the rest", said=several.left)


@pytest.mark.contract
def test_a_world_outlives_its_session_with_a_host_until_that_host_is_given_up(several) -> None:
    bench = several.bench()
    generation = bench.ready(2)
    host = several.hosts[1]
    run = bench.submit(generation, "for i in range(100):\n    report(loss=i)\n    sleep(0.02)")
    bench.until(lambda: bench.batches(run).get(1))

    several.sessions[host.address].close()
    several.sessions[host.address] = several.log_in(host)
    monitor = several.cluster._nodes._monitors[host.address]
    new = several.sessions[host.address]
    bench.world_until(generation, lambda fact: monitor.session is new)
    batches = bench.batches_until_ended(run, 2)
    iterations = [i for batch in batches[1] for i in batch.samples.iterations]
    assert iterations == [*range(1, 101)]

    several.sessions[host.address].close()
    several.sessions[host.address] = LostSession(Host(host.address, 1))
    fact = bench.world_until(generation, lambda fact: bool(fact.reason))

    assert fact.reason == (
        f"{host.name} ({host.address}) is out of reach: the ssh session with it was lost"
    )
    ended(bench, generation)
    several.sessions[host.address] = several.log_in(host)
    until(lambda: not several.left(), what="the end of the rest", said=several.left, seconds=20.0)


@pytest.mark.weekly
@SOON
def test_a_world_and_its_ranks_end_that_are_out_of_reach_for_longer_than_they_wait(several) -> None:
    bench = several.bench()
    generation = bench.ready(2)

    several.hosts.part(*several.hosts)
    fact = bench.world_until(generation, lambda fact: bool(fact.deaths))

    assert any("has not answered for 8" in death.cause for death in fact.deaths)
    ended(bench, generation)
    until(lambda: not several.left(), what="the end of the rest", said=several.left)


def test_a_host_that_does_not_answer_at_the_start_is_named(several) -> None:
    bench = several.bench()
    several.sessions[several.hosts[1].address].close()

    generation = bench.begin(3)
    fact = bench.world_until(generation, lambda fact: fact.state is WorldState.ENDED)

    assert fact.reason.startswith(f"{several.hosts[1].address} is out of reach")
    until(lambda: not several.left(), what="the end of the rest", said=several.left, seconds=20.0)


def test_nothing_is_left_of_a_world_that_ends_while_it_starts(several) -> None:
    bench = several.bench()
    generation = bench.begin(3)
    until(several.left, what="a rank", seconds=20.0)

    ended(bench, generation)

    until(lambda: not several.left(), what="the end of the rest", said=several.left, seconds=20.0)


@pytest.mark.contract
def test_the_world_ends_with_the_cluster_and_leaves_no_file(several) -> None:
    bench = several.bench()
    bench.ready(2)

    several.close()

    assert until(lambda: not several.left(closed=True)), several.left(closed=True)
    for host in several.hosts:
        assert "workbench" not in host.run("ls", "-A", "/tmp")


def test_starts_that_fail_take_no_place_in_the_sessions(several) -> None:
    bench = several.bench()
    login = several.cluster._spreading._login
    several.cluster._spreading._login = lambda hosts: Login(
        (several.hosts[0].known_hosts,), several.hosts.key
    )
    for at_once in (1, 1, 10):  # sshd allows ten things at a time in one session
        begun = {bench.begin(2) for _ in range(at_once)}
        bench.until(lambda begun=begun: over(bench, begun))
    several.cluster._spreading._login = login

    generation = bench.ready(3)

    for host in several.hosts:
        listed = host.run("ps", "axww", "-o", "args=").splitlines()
        assert len([line for line in listed if "-m workbench.node.agent" in line]) == 1
    ended(bench, generation)


def test_a_monitor_that_says_nothing_is_ended(several, monkeypatch) -> None:
    host = several.hosts[0]
    host.run("sh", "-c", "printf '#!/bin/sh\nexec sleep 1000\n' > /tmp/p && chmod +x /tmp/p")
    monkeypatch.setattr(node_agent, "python_of", lambda session: "/tmp/p")
    monkeypatch.setattr(remote_hosts.RemoteProcessMonitor.wait_for_facts, "__defaults__", (0.5,))
    bench = several.bench()

    begun = bench.begin(1)
    bench.until(lambda: over(bench, {begun}))

    until(lambda: not several.left(), what="the end of the rest", said=several.left, seconds=20.0)


def test_a_node_that_leaves_keeps_nothing_of_ours_and_what_is_others(several) -> None:
    bench = several.bench()
    ended(bench, bench.ready(3))
    first, second, third = several.hosts
    second.run("mkdir", f"{CLUSTER_FOLDER}-another")
    third.cut()
    began = time.monotonic()

    for session in several.sessions.values():
        several.cluster.leave(session)

    assert time.monotonic() - began < NOTICED_SECONDS

    def ours(host) -> list[str]:
        """Return our folders there; this checkout may be in the same place."""
        names = host.run("ls", "-A", "/tmp").split()
        return [name for name in names if name.startswith(Path(CLUSTER_FOLDER).name)]

    assert ours(first) == []
    assert ours(second) == [f"{Path(CLUSTER_FOLDER).name}-another"]
    assert third.run("ls", "-A", place(several)) != ""


def test_a_successor_takes_up_the_world_of_a_supervisor_that_was_killed(several) -> None:
    before = several.bench()
    generation = before.ready(2)
    ranks = before.world_until(generation, lambda fact: bool(fact.ranks)).ranks
    run = before.submit(generation, "for i in range(600):\n    report(loss=i)\n    sleep(0.01)")
    before.until(lambda: before.batches(run).get(0))
    before.cluster._router.close()  # as when its process is gone
    before.cluster._client.close()
    for session in several.sessions.values():
        session.close()

    several.sessions = {host.address: several.log_in(host) for host in several.hosts}
    several.cluster = MpiCluster(several.folder, several.reach, several.login)
    several.cluster.open({generation: ranks})
    after = Bench(several.cluster, several.folder, PRELUDE, several.carriers)
    after._generation = generation
    fact = after.world_until(generation, lambda fact: fact.state is WorldState.READY)

    assert fact.ranks == ranks
    assert after.batches_until_ended(run, 2)[1][-1].ending.state == "finished"
    after._submitted = before._submitted
    again = after.submit(generation, "report(loss=MPI.COMM_WORLD.allreduce(1))")
    assert set(after.batches_until_ended(again, 2)) == {0, 1}
    ended(after, generation)
    until(lambda: not several.left(), what="the end of the rest", said=several.left, seconds=20.0)


OF_A_JOB = """
import os
jobs = [name for name, value in os.environ.items() if value == "nonsense"]
print(MPI.COMM_WORLD.allreduce(rank), "WORKBENCH_STUB" in os.environ, jobs)
"""


def test_this_machine_can_be_the_head_of_others(possible, tmp_path, monkeypatch) -> None:
    """Its ranks are forked there too, whatever job and whatever home this process has."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("SLURM_JOBID", "SLURM_JOB_ID", "SLURM_NODELIST", "PMI_RANK", "PMIX_NAMESPACE"):
        monkeypatch.setenv(name, "nonsense")
    with Hosts(2) as hosts, contextlib.closing(Several(hosts, tmp_path, here=True)) as several:
        bench = several.bench()
        if not bench.cluster.fault_tolerant:
            pytest.skip("MPICH's UCX passes over a bridge, which is what leads to the hosts here")
        generation = bench.ready(3)

        run = bench.submit(generation, OF_A_JOB)
        found = bench.batches_until_ended(run, 3)

        text = {n: "".join(c.text for b in all_ for c in b.chunks) for n, all_ in found.items()}
        assert text == dict.fromkeys(range(3), "3 True []\n")
        ended(bench, generation)
        until(
            lambda: not several.left(), what="the end of the rest", said=several.left, seconds=20.0
        )
        folder = Path(place(several))
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


def test_a_folder_of_another_user_on_a_host_is_refused(several) -> None:
    bench, host = several.bench(), several.hosts[1]
    host.run("mkdir", place(several))
    host.run("chown", "65534", place(several))

    generation = bench.begin(2)
    fact = bench.world_until(generation, lambda fact: fact.state is WorldState.ENDED)

    assert fact.reason == (
        f"{place(several)} on {host.address} cannot be made, or belongs to another user; "
        "look at it there, and remove it"
    )


def test_a_name_that_means_every_host_itself_is_refused(several) -> None:
    bench = several.bench()
    bench._carriers = lambda size: (Host("localhost", 1), Host(several.hosts[0].address, 1))
    several.reach = lambda host: several.sessions.get(host.address)
    bench.cluster._nodes._reach = several.reach

    generation = bench.begin(2)
    fact = bench.world_until(generation, lambda fact: fact.state is WorldState.ENDED)

    assert fact.reason == (
        "localhost is a loopback address, which every host has; name the host by its address "
        "in the network of the hosts"
    )
