"""The names of ``horovod.torch``."""

from __future__ import annotations

from typing import Any

from mpi4py import MPI

from workbench.errors import InputError
from workbench.frameworks.horovod.collectives import (
    Adasum,
    Average,
    Compression,
    Max,
    Min,
    Product,
    Sum,
    allgather,
    allgather_object,
    allreduce,
    allreduce_,
    alltoall,
    barrier,
    broadcast,
    broadcast_,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
    grouped_allgather,
    grouped_allreduce,
    grouped_allreduce_,
    join,
    poll,
    synchronize,
)
from workbench.frameworks.horovod.optimizer import DistributedOptimizer
from workbench.frameworks.horovod.world import (
    cross_rank,
    cross_size,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    rank,
    shutdown,
    size,
)

__version__ = "0.28.1"

allgather_async = allgather
allreduce_async = allreduce
allreduce_async_ = allreduce_
alltoall_async = alltoall
broadcast_async = broadcast
broadcast_async_ = broadcast_
grouped_allgather_async = grouped_allgather
grouped_allreduce_async = grouped_allreduce
grouped_allreduce_async_ = grouped_allreduce_
global_process_set = None


def mpi_threads_supported() -> bool:
    """Return whether MPI may be called from several threads."""
    return bool(MPI.Query_thread() == MPI.THREAD_MULTIPLE)


def mpi_built(verbose: bool = False) -> bool:
    """Return that MPI carries the values."""
    return True


def nccl_built(verbose: bool = False) -> bool:
    """Return that NCCL does not."""
    return False


def SyncBatchNorm(*args: Any, **kwargs: Any) -> Any:  # noqa: N802  # Horovod's own name
    """Refuse: batch statistics of all ranks are not computed here.

    Raises:
        InputError: Always.
    """
    raise InputError(
        "hvd.SyncBatchNorm is not supported by workbench's Horovod shim",
        "use torch.nn.SyncBatchNorm in DistributedDataParallel, or install Horovod.",
    )


mpi_enabled = mpi_built
ccl_built = cuda_built = ddl_built = gloo_built = gloo_enabled = rocm_built = nccl_built

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "Max",
    "Min",
    "Product",
    "Sum",
    "SyncBatchNorm",
    "allgather",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "cross_rank",
    "cross_size",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_allreduce_",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "poll",
    "rank",
    "shutdown",
    "size",
    "synchronize",
]
