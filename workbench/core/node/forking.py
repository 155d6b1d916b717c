"""Decide whether a rank that mpiexec starts can be forked from a node's fork server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

SOCKET = "forks"
"""The socket of a fork server, in a folder of its own."""

KEEP, END = b"K", b"E"
"""What a keeper sends a fork server: that it is to stay, and that it is to end."""

RANK_ENDED = "ended"
"""Begins a keeper's line on the end of a rank; its process id and its wait status follow."""

STUB_VARIABLE = "WORKBENCH_STUB"
"""In a forked rank: the process ids of its stub and of the stub's parent."""

PAD_VARIABLE = "WORKBENCH_PAD"
"""Begins the names of variables that only fill memory, for the environments of ranks."""

# What ssh and MPI's and our own launchers set for each rank; it is read when a rank has begun.
SET_BY_LAUNCHERS = (
    "FI_", "HWLOC_", "HYDI_", "HYDRA_", "IPP_", "JPY_", "MPICH_", "MPIR_", "OMPI_", "OPAL_",
    "PMIX_", "PMI_", "PRTE_", "SSH_", "UCX_", "WORKBENCH_", "XDG_SESSION_",
)  # fmt: skip
# Each is read later than the imports, or set again in the rank. mpiexec of the wheels adds its own
# folder to LD_LIBRARY_PATH, which the libraries beside it do not need. Libraries of MPI set
# …_NO_BACKTRACE in a process that imports them, which its children inherit.
SET_LATER = frozenset(
    {
        "COLUMNS", "DYLD_LIBRARY_PATH", "GFORTRAN_UNBUFFERED_PRECONNECTED",
        "HFI_NO_BACKTRACE", "HOME", "IPATH_NO_BACKTRACE", "IPYTHONDIR", "LINES",
        "LD_LIBRARY_PATH", "MKL_NUM_THREADS", "MPI_LOCALNRANKS", "MPI_LOCALRANKID", "MPLBACKEND",
        "OLDPWD", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "PWD", "SHLVL",
        "PYDEVD_USE_FRAME_EVAL", "PYTEST_CURRENT_TEST", "TMPDIR", "TZ", "_",
    }
)  # fmt: skip

_LOGIN = re.compile(r"(/user\.slice/user-[0-9]+\.slice)/session-[^/\n]+\.scope$", re.MULTILINE)


@dataclass(frozen=True)
class ForkContext:
    """What a process gets from its parent and cannot change.

    Args:
        identity: Users, groups and namespaces.
        cgroup: Its control groups.
        nice: Its priority.
        hard_limits: The upper bound of each resource limit; infinity for none.
    """

    identity: str
    cgroup: str
    nice: int
    hard_limits: tuple[float, ...]


@dataclass(frozen=True)
class RankRequest:
    """The program that mpiexec starts, and all that it would have had from there.

    Args:
        arguments: ``python -m MODULE …``.
        folder: Its working folder.
        limits: Soft and hard limit of each resource; -1 for none.
        cores: The processors that it may use.
        oom_score: How early it is ended when memory is short.
        ignored: The signals that it ignores.
        blocked: The signals that wait.
        descriptors: The numbers of its open files.
        parent: The process that started it.
    """

    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    surroundings: ForkContext
    folder: str
    umask: int
    limits: tuple[tuple[int, int], ...]
    cores: tuple[int, ...]
    oom_score: int
    ignored: tuple[int, ...]
    blocked: tuple[int, ...]
    descriptors: tuple[int, ...]
    parent: int


def refusal(
    request: RankRequest,
    python: str,
    environment: Mapping[str, str],
    surroundings: ForkContext,
    *,
    is_privileged: bool,
) -> str:
    """Return why a rank cannot be forked from this process; empty if it can.

    Args:
        python: The program of this process.
        environment: The one that this process was started with.
        is_privileged: Whether it may raise its own limits and priority.
    """
    theirs = request.surroundings
    if request.arguments[:2] != (python, "-m") or len(request.arguments) < 3:
        return "it is not a module of the same Python"
    if theirs.identity != surroundings.identity:
        return "it has another user or namespace"
    if not is_same_group(theirs.cgroup, surroundings.cgroup):
        return "it is in another control group"
    if not is_privileged:
        if theirs.nice < surroundings.nice:
            return "it has a higher priority"
        pairs = zip(theirs.hard_limits, surroundings.hard_limits, strict=False)
        if any(wanted > here for wanted, here in pairs):
            return "it has higher resource limits"
    different = sorted(
        name
        for name in {*request.environment, *environment}
        if not is_read_late(name)
        and (request.environment.get(name) or "") != (environment.get(name) or "")
    )
    if different:
        return f"its environment differs in {', '.join(different[:3])}"
    return ""


def is_same_group(one: str, other: str) -> bool:
    """Return whether two processes have the same control groups, or those of one user's logins.

    Each login by ssh gets a group of its own from systemd, below the one with the user's limits.
    """
    return _LOGIN.sub(r"\1", one) == _LOGIN.sub(r"\1", other)


def is_read_late(name: str) -> bool:
    """Return whether a variable has no effect on imports."""
    return name in SET_LATER or name.startswith(SET_BY_LAUNCHERS)
