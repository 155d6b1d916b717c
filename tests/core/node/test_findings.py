from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.node.disks import Disk, Mount
from workbench.core.node.findings import (
    judge_blas,
    judge_chainer,
    judge_directory,
    judge_disk,
    judge_forks,
    judge_host_name,
    judge_interfaces,
    judge_kept,
    judge_kernels,
    judge_mpi,
    judge_own_gpus,
    judge_package,
    judge_place,
    judge_python,
    judge_shared_memory,
    judge_versions,
    judge_world,
)
from workbench.core.world.world import RankFact

HERE = Disk(Mount("/d", "ext4"), 20 * 10**9, 5 * 10**9)

RANKS = [
    RankFact(
        1, rank, "here", 100 + rank, rank, "3.11.7", "Open MPI v5.0.11", 1, (("numpy", "2.4"),)
    )
    for rank in range(3)
]


@pytest.mark.parametrize(
    ("finding", "ok", "found"),
    [
        (judge_python((3, 11), "/py"), True, "3.11 (/py)"),
        (judge_python((3, 10), "/py"), False, "3.10 (/py)"),
        (judge_python((3, 15), "/py"), False, "3.15 (/py)"),
        (judge_package("", ""), True, "no other project has a package called workbench here"),
        (judge_package("workbench 1 is", "remove it."), False, "workbench 1 is"),
        (judge_mpi("/m", "Open MPI 5.0.11"), True, "Open MPI 5.0.11 (/m)"),
        (judge_mpi("", "", "None was found", "install one."), False, "None was found"),
        (judge_world([(2, 2), (2, 2)], "", 1.0), True, "2 ranks, allreduce done, 1.0 s"),
        (judge_world([(2, 2)], "", 1.0), False, "1 of 2 ranks answered"),
        (judge_world([], "-----\nno slots\n", 1.0), False, "no slots"),
        (judge_host_name("vm", ["127.0.0.1"], True, 0.0), True, "vm resolves to 127.0.0.1"),
        (judge_host_name("vm", [], False, 0.0), False, "vm resolves to no address"),
        (
            judge_host_name("vm", ["10.9.9.9"], False, 0.0),
            False,
            "vm resolves to 10.9.9.9, which is not this machine",
        ),
        (judge_host_name("vm", ["::1"], True, 9.0), False, "vm resolves to ::1, after 9.0 s"),
        (judge_directory("/d", ""), True, "/d is writable"),
        (judge_directory("/d", "Read-only"), False, "/d is not writable: Read-only"),
        (judge_disk("/d", 5_000_000_000), True, "5.0 GB free in /d"),
        (judge_disk("/d", 5_000_000), False, "0.0 GB free in /d"),
        (judge_place(HERE), True, "/d is a local disk"),
        (
            judge_place(replace(HERE, mount=Mount("/home", "nfs4"))),
            True,
            "/home (nfs4) is a shared disk; only this machine may use the data directory on it",
        ),
        (
            judge_kept(HERE, 1, 2000, 10**6, "all are kept", True),
            True,
            "1 run: 2 kB in the store, 1 MB in their folders, on /d (ext4, 20 GB with 5 GB free); "
            "all are kept",
        ),
        (
            judge_kept(HERE, 12_000, 2 * 10**9, 4 * 10**9, "all are kept", False),
            False,
            "12,000 runs: 2 GB in the store, 4 GB in their folders, on /d (ext4, 20 GB with 5 GB "
            "free); all are kept; no reserve yet for a full disk",
        ),
        (judge_shared_memory(64 << 20), True, "/dev/shm has 67 MB"),
        (judge_shared_memory(1 << 20), False, "/dev/shm has 1 MB"),
        (judge_shared_memory(0), False, "there is no /dev/shm"),
        (judge_forks(900, [], ""), True, "ranks are forked with 900 modules imported"),
        (
            judge_forks(9, ["a: b"], ""),
            True,
            "ranks are forked with 9 modules imported; each rank itself imports a: b",
        ),
        (judge_forks(0, [], "it fails"), None, "every rank starts by itself: it fails"),
        (judge_interfaces([]), True, "loopback only"),
        (judge_interfaces(["eth0"]), True, "eth0"),
        (judge_chainer("Compat chainer 7.8.1", "", (3, 13)), True, "Compat chainer 7.8.1"),
        (judge_chainer("", "no", (3, 14)), None, "not for Python 3.14"),
        (judge_chainer("", "ImportError: no", (3, 11)), False, "ImportError: no"),
        (judge_kernels(compiled=True, supported=True), True, "compiled kernels"),
        (
            judge_kernels(compiled=True, supported=False),
            None,
            "NumPy, which takes twice as long: this processor lacks AVX2 or F16C",
        ),
        (
            judge_kernels(compiled=False, supported=False),
            None,
            "NumPy, which takes twice as long: this installation has no compiled modules",
        ),
        (
            judge_kernels(compiled=True, supported=True, is_old=True),
            None,
            "NumPy, which takes twice as long: "
            "the kernels are older than their sources, so run `pip install --editable .` there",
        ),
        (judge_own_gpus([], ""), None, "none is visible"),
        (judge_own_gpus([], "no devices"), False, "nvidia-smi says: no devices"),
        (
            judge_own_gpus(["Tesla T4"], ""),
            None,
            "1 × Tesla T4; ranks do not use them: neither CuPy nor PyTorch for CUDA is installed",
        ),
        (
            judge_own_gpus(["L4", "A10G", "L4"], "", ["CuPy 14.2.0", "PyTorch 2.13.0"]),
            True,
            "1 × A10G; 2 × L4, CuPy 14.2.0, PyTorch 2.13.0",
        ),
        (
            judge_own_gpus(["L4"], "", ["CuPy 14.2.0"], "RuntimeError: too old"),
            False,
            "1 × L4, CuPy 14.2.0; RuntimeError: too old",
        ),
        (judge_blas([], {}, 2, "here"), None, "set when a cluster starts"),
        (judge_blas([], {"OMP_NUM_THREADS": "9"}, 2, "here"), None, "OMP_NUM_THREADS=9"),
        (judge_blas(RANKS, {}, 2, "here"), True, "1 per rank, 3 ranks on 2 cores"),
        (judge_blas(RANKS, {}, 2, "there"), None, "set when a cluster starts"),
        (judge_versions([]), None, "no cluster is up"),
        (judge_versions(RANKS), True, "3 packages agree on 3 ranks"),
    ],
)
def test_a_check_says_what_it_found(finding, ok, found):
    assert (finding.ok, finding.found) == (ok, found)
    assert bool(finding.remedy) is (ok is False)


def test_ranks_that_are_alone_point_to_two_mpis():
    finding = judge_world([(1, 1), (1, 1)], "", 1.0)

    assert "different MPIs" in finding.remedy


def test_settings_of_another_mpi_are_named_first() -> None:
    finding = judge_world([], "no component", 1.0, ["MPI4PY_LIBMPI", "OMPI_MCA_btl"])

    assert finding.remedy.startswith("Unset MPI4PY_LIBMPI, OMPI_MCA_btl, which another MPI")
    assert judge_world([], "no component", 1.0).remedy.startswith("Reinstall MPI into this")


def test_a_bridge_is_reported_but_is_no_fault_on_one_machine():
    finding = judge_interfaces(["eth0", "docker0"])

    assert finding.ok
    assert "btl_tcp_if_include" in finding.found


def test_too_many_blas_threads_name_the_fair_number():
    busy = [replace(rank, blas_threads=4) for rank in RANKS[:2]]

    finding = judge_blas(busy, {}, 4, "here")

    assert finding.found == "4 per rank, 2 ranks on 4 cores"
    assert "above 2:" in finding.remedy


def test_a_version_apart_names_the_rank_that_has_it():
    odd = replace(RANKS[2], versions=(("numpy", "2.3"),), python="3.12.1")

    finding = judge_versions([*RANKS[:2], odd])

    assert finding.found == "numpy 2.4, but 2.3 on rank 2; python 3.11.7, but 3.12.1 on rank 2"
    assert "Install the same numpy, python for every rank" in finding.remedy


def test_a_distribution_that_a_rank_lacks_is_apart():
    finding = judge_versions([*RANKS[:2], replace(RANKS[2], versions=())])

    assert finding.found == "numpy 2.4, but none on rank 2"


def test_a_missing_chainer_is_no_problem_and_the_command_that_adds_it_is_said():
    finding = judge_chainer("", "ModuleNotFoundError: No module named 'chainer'", (3, 11))

    assert finding.ok is None
    assert "`pip install chainer==7.8.1`" in finding.found
