"""One MPI world: its hosts, their slots, and the host of each rank."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.core.messages import Count
from workbench.errors import InputError

MAX_RANKS = 4096
# For MASTER_PORT: below the ports that the system gives to connections, which could take one first.
PORT_RANGE = (12_000, 32_000)
# Names the simulated node of a process, and the cluster's owner, as in ``r-000001@3f9a1c``; only a
# rehearsal has such nodes.
NODE_VARIABLE = "WORKBENCH_REHEARSAL_NODE"
# Bytes per second that simulated nodes send each other at most.
LINK_VARIABLE = "WORKBENCH_REHEARSAL_LINK"
WORLD_VARIABLE = "WORKBENCH_WORLD"
# Names the file with the controller's addresses and keys, relative to the home directory.
CONNECTION_VARIABLE = "WORKBENCH_CONNECTION"
# The programs of MPI between a shell and its ranks.
DAEMONS = ("prted", "orted", "prterun", "mpiexec", "mpiexec.hydra", "hydra_pmi_proxy")
# What limits the threads of every BLAS.
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
# Variables of a kernel or server that a rank must not inherit.
FOREIGN = ("JPY_PARENT_PID", "JPY_SESSION_NAME", "MPLBACKEND", "PYDEVD_USE_FRAME_EVAL")
# How those begin that batch systems and launchers set for their own jobs: mpiexec would place its
# ranks in such a job, and libraries would take a rank for one of it.
OF_JOBS = (
    "ALPS_", "COBALT_", "FLUX_", "LSB_", "LSF_", "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_", "ORTE_",
    "PALS_", "PBS_", "PE_HOSTFILE", "PMIX_", "PMI_", "PRTE_", "SBATCH_", "SGE_", "SLURM", "SRUN_",
)  # fmt: skip
_SETTING = "_MCA_"  # of a user, for MPI


@dataclass(frozen=True)
class Host:
    """One machine in the view of mpiexec.

    Args:
        address: Name or address that the launcher can reach.
        slots: Ranks that it may carry without oversubscription.
        user: User name for ssh; empty for the setting of ssh's configuration.
        port: Port of ssh; 0 for the setting of ssh's configuration.
        python: Path of the Python with our environment; empty if it is the same as here.
        sockets: Connections between two ranks that are needed to use the whole network.
    """

    address: str
    slots: int
    user: str = ""
    port: int = 0
    python: str = ""
    sockets: int = 1


@dataclass(frozen=True)
class World:
    """Ranks laid out over hosts, filled host by host.

    Args:
        hosts: In rank order; the first one carries rank 0.
        size: Number of ranks.
        oversubscribe: Whether a host may carry more ranks than it has slots.
        link: Limit on the connection between two hosts' ranks in a rehearsal, in bytes per second;
            0 for no limit.
    """

    hosts: tuple[Host, ...]
    size: int
    oversubscribe: bool = False
    link: float = 0.0

    @property
    def slots(self) -> int:
        """Ranks that fit without oversubscription."""
        return sum(host.slots for host in self.hosts)

    @property
    def sockets(self) -> int:
        """Sockets between two ranks on different hosts: as the slowest host needs."""
        return min((host.sockets for host in self.hosts), default=1)

    @property
    def placement(self) -> tuple[str, ...]:
        """The host address of every rank, in rank order."""
        filled = [host.address for host in self.hosts for _ in range(host.slots)]
        over = self.size - len(filled)
        extra = [self.hosts[i % len(self.hosts)].address for i in range(max(0, over))]
        return tuple((filled + extra)[: self.size])

    def __repr__(self) -> str:
        return f"<World {self.size} ranks on {len(self.hosts)} hosts>"


def is_foreign(name: str) -> bool:
    """Return whether a variable is of the process or the job around us, and no rank's."""
    return name in FOREIGN or (name.startswith(OF_JOBS) and _SETTING not in name)


def plan_world(hosts: tuple[Host, ...], ranks: int, oversubscribe: bool = False) -> World:
    """Return ``ranks`` distributed over ``hosts``.

    Raises:
        InputError: ``ranks`` is below one, far too large, or more than the slots.
    """
    slots = sum(host.slots for host in hosts)
    if ranks < 1:
        raise InputError(f"ranks must be at least 1, not {ranks}", f"try --ranks {max(1, slots)}.")
    if ranks > MAX_RANKS:
        raise InputError(
            f"{ranks} ranks are too many", f"ask for at most {MAX_RANKS}, the limit of workbench."
        )
    if ranks > slots and not oversubscribe:
        where = "this machine has" if len(hosts) == 1 else f"these {len(hosts)} hosts have"
        raise InputError(
            f"{ranks} ranks were asked for, but {where} {slots} slots",
            f"ask for at most {slots}, or let ranks share cores (--oversubscribe).",
        )
    return World(hosts, ranks, oversubscribe)


def hostfile(world: World) -> str:
    """Return the host file's text for ``world``, in Open MPI's format.

    Only the hosts that carry a rank are listed: a daemon starts on every host of the file.
    """
    used = world.placement
    lines = [
        f"{host.address} slots={max(host.slots, used.count(host.address))}"
        for host in world.hosts
        if host.address in used
    ]
    return "\n".join(lines) + "\n"


def machinefile(world: World) -> str:
    """Return the host file's text for ``world``, in MPICH's format (``host:processes``)."""
    used = world.placement
    hosts = dict.fromkeys(used)
    return "".join(f"{address}:{used.count(address)}\n" for address in hosts)


def network_of(addresses: Sequence[str]) -> str:
    """Return the smallest network with all numeric ``addresses``; empty if there is none.

    MPI is limited to it, because an interface such as docker's has the same address on every host.
    One host needs no network, and Open MPI 5's mpiexec sometimes crashes if limited to one address.
    """
    try:
        found = [ipaddress.ip_address(address) for address in addresses]
    except ValueError:
        return ""
    if len({*found}) < 2 or len({address.version for address in found}) != 1:
        return ""
    bits = (int(min(found, key=int)) ^ int(max(found, key=int))).bit_length()
    network = f"{found[0]}/{found[0].max_prefixlen - bits}"
    return "" if network.endswith("/0") else str(ipaddress.ip_network(network, strict=False))


def torch_environment(
    rank: int, machines: Sequence[int], master: str, port: int, gpus: int = 0
) -> dict[str, str]:
    """Return the variables that ``torchrun`` would set on ``rank``, for whatever reads them.

    Args:
        machines: For each rank of the run a number of its machine.
        gpus: Those of the rank's machine. If it has more ranks, they share them, and ``LOCAL_RANK``
            begins at 0 again, as scripts take ``cuda:LOCAL_RANK``.
    """
    mine, distinct = machines[rank], [*dict.fromkeys(machines)]
    place = machines[:rank].count(mine)
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(len(machines)),
        "LOCAL_RANK": str(place % gpus if gpus else place),
        "LOCAL_WORLD_SIZE": str(machines.count(mine)),
        "GROUP_RANK": str(distinct.index(mine)),
        "GROUP_WORLD_SIZE": str(len(distinct)),
        "MASTER_ADDR": master,
        "MASTER_PORT": str(port),
    }


def blas_environment(threads: int) -> dict[str, str]:
    """Return the variables that limit every BLAS to ``threads`` threads per rank."""
    return dict.fromkeys(THREADS, str(threads))


@dataclass(frozen=True)
class RankFact:
    """One rank of one generation, as described by its engine.

    Args:
        engine: The ipyparallel engine id, which need not equal the rank.
        address: The address that the launcher uses; ``host`` is the host's own name.
        versions: Distribution name to version, as found on that rank.
        mpi: The MPI library's own version line.
        blas_threads: Threads that the rank's BLAS may use; 0 when unknown.
    """

    generation: Count
    rank: Count
    host: str
    pid: Count
    engine: Count
    python: str = ""
    mpi: str = ""
    blas_threads: Count = 0
    versions: tuple[tuple[str, str], ...] = ()
    address: str = "localhost"
