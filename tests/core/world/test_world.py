"""Ranks are distributed over hosts, written as host files, and refused if they do not fit."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.world.world import (
    MAX_RANKS,
    Host,
    World,
    blas_environment,
    hostfile,
    is_foreign,
    machinefile,
    network_of,
    plan_world,
    torch_environment,
)
from workbench.errors import InputError

TWO_HOSTS = (Host("a", 2), Host("b", 3))
PROFILE = settings(derandomize=True, deadline=None, max_examples=60)

host_lists = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(
    lambda slots: tuple(Host(f"host{i}", n) for i, n in enumerate(slots))
)


def test_ranks_fill_host_by_host() -> None:
    world = plan_world(TWO_HOSTS, 4)

    assert world.placement == ("a", "a", "b", "b")


def test_ranks_beyond_the_slots_go_round_the_hosts() -> None:
    world = plan_world(TWO_HOSTS, 8, oversubscribe=True)

    assert world.placement == ("a", "a", "b", "b", "b", "a", "b", "a")


@PROFILE
@given(host_lists, st.data())
def test_every_rank_has_a_place_and_no_host_too_many(hosts, data) -> None:
    ranks = data.draw(st.integers(1, sum(host.slots for host in hosts)))

    world = plan_world(hosts, ranks)

    assert len(world.placement) == ranks
    assert all(world.placement.count(host.address) <= host.slots for host in hosts)


@pytest.mark.parametrize(
    ("hosts", "ranks", "sentence"),
    [
        (TWO_HOSTS, 0, "ranks must be at least 1, not 0; try --ranks 5."),
        ((), -3, "ranks must be at least 1, not -3; try --ranks 1."),
        (
            (Host("localhost", 2),),
            3,
            "3 ranks were asked for, but this machine has 2 slots; "
            "ask for at most 2, or let ranks share cores (--oversubscribe).",
        ),
        (
            TWO_HOSTS,
            6,
            "6 ranks were asked for, but these 2 hosts have 5 slots; "
            "ask for at most 5, or let ranks share cores (--oversubscribe).",
        ),
    ],
)
def test_a_size_that_does_not_fit_is_refused_with_the_remedy(hosts, ranks, sentence) -> None:
    with pytest.raises(InputError) as refusal:
        plan_world(hosts, ranks)

    assert str(refusal.value) == sentence


def test_an_absurd_size_is_refused_even_when_cores_may_be_shared() -> None:
    with pytest.raises(InputError, match=f"{MAX_RANKS + 1} ranks are too many"):
        plan_world(TWO_HOSTS, MAX_RANKS + 1, oversubscribe=True)


def test_the_largest_size_is_taken() -> None:
    assert plan_world(TWO_HOSTS, MAX_RANKS, oversubscribe=True).size == MAX_RANKS


def test_the_host_file_lists_only_hosts_that_carry_a_rank() -> None:
    assert hostfile(plan_world(TWO_HOSTS, 2)) == "a slots=2\n"
    assert hostfile(plan_world(TWO_HOSTS, 3)) == "a slots=2\nb slots=3\n"


def test_the_host_file_has_room_for_ranks_that_share_cores() -> None:
    world = plan_world((Host("localhost", 2),), 5, oversubscribe=True)

    assert hostfile(world) == "localhost slots=5\n"


def test_the_machine_file_counts_the_processes_of_each_host() -> None:
    assert machinefile(plan_world(TWO_HOSTS, 4)) == "a:2\nb:2\n"
    assert machinefile(plan_world((Host("localhost", 1),), 4, oversubscribe=True)) == (
        "localhost:4\n"
    )


@PROFILE
@given(host_lists, st.integers(1, 20))
def test_the_machine_file_holds_every_rank_once(hosts, ranks) -> None:
    lines = machinefile(plan_world(hosts, ranks, oversubscribe=True)).splitlines()

    assert sum(int(line.rsplit(":", 1)[1]) for line in lines) == ranks


def test_torch_finds_its_place_in_the_environment() -> None:
    assert torch_environment(4, [0, 0, 2, 0, 2, 2], "a", 2345) == {
        "RANK": "4",
        "WORLD_SIZE": "6",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "3",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "MASTER_ADDR": "a",
        "MASTER_PORT": "2345",
    }


@pytest.mark.parametrize(
    ("gpus", "local"), [(0, "01012"), (1, "00000"), (2, "01010"), (3, "01012"), (8, "01012")]
)
def test_ranks_of_a_machine_with_fewer_gpus_share_them(gpus, local) -> None:
    found = [torch_environment(rank, [0, 0, 7, 7, 7], "a", 1, gpus) for rank in range(5)]

    assert [one["LOCAL_RANK"] for one in found] == [*local]
    assert [one["LOCAL_WORLD_SIZE"] for one in found] == [*"22333"]


def test_every_blas_is_held_to_its_threads() -> None:
    environment = blas_environment(3)

    assert set(environment.values()) == {"3"}
    assert {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"} <= environment.keys()


def test_a_world_says_its_size() -> None:
    assert repr(World(TWO_HOSTS, 4)) == "<World 4 ranks on 2 hosts>"


@pytest.mark.parametrize(
    ("addresses", "network"),
    [
        (["10.55.0.1", "10.55.0.3", "10.55.0.2"], "10.55.0.0/30"),
        (["172.31.41.13", "172.31.3.9"], "172.31.0.0/18"),
        (["fe80::1", "fe80::2"], "fe80::/126"),
        (["192.168.0.1", "10.0.0.1"], ""),
        (["10.0.0.1", "::1"], ""),
        (["10.0.0.1", "head"], ""),
        ([], ""),
        (["10.0.0.1"], ""),
    ],
)
def test_the_network_of_hosts_is_the_smallest_that_has_all_of_them(addresses, network) -> None:
    assert network_of(addresses) == network


@pytest.mark.parametrize(
    ("name", "is_of_a_job"),
    [
        ("SLURM_JOBID", True),
        ("SLURMD_NODENAME", True),
        ("PMI_RANK", True),
        ("PMIX_NAMESPACE", True),
        ("OMPI_COMM_WORLD_RANK", True),
        ("PBS_JOBID", True),
        ("PE_HOSTFILE", True),
        ("JPY_PARENT_PID", True),
        ("OMPI_MCA_btl", False),
        ("PMIX_MCA_gds", False),
        ("PRTE_MCA_plm_ssh_agent", False),
        ("PATH", False),
        ("MY_SLURM_NOTES", False),
    ],
)
def test_variables_of_a_job_are_foreign_and_settings_of_mpi_are_not(name, is_of_a_job) -> None:
    assert is_foreign(name) is is_of_a_job
