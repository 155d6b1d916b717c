"""Create communicators, by a call or in place of an unmodified script's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy

from workbench.core.performance.exchange_model import Algorithm, Codec
from workbench.core.run.exchange_options import (
    COMMUNICATOR_VARIABLE,
    COMPRESS_VARIABLE,
    DOUBLE_VARIABLE,
    check_codec,
    check_communicator,
)
from workbench.errors import InputError

if TYPE_CHECKING:
    from workbench.engine.exchange.communicator import ExchangeCommunicator

# ChainerMN's own names, so that only the name has to change.
THEIRS = ("naive", "flat", "non_cuda_aware", "pure_nccl")


def create_communicator(
    communicator_name: str = "auto",
    mpi_comm: Any = None,
    *,
    compress: str | None = None,
    matrix_rank: int = 4,
    overlap: bool | None = None,
    allreduce_grad_dtype: Any = None,
    batched_copy: bool = True,
) -> ExchangeCommunicator:
    """Create a communicator for ChainerMN, to use wherever one of its own is.

    Collective over ``mpi_comm``.

    Args:
        communicator_name: ``auto`` chooses by measurements of the links; ``ring``,
            ``doubling``, ``hierarchical`` and ``mpi`` name an algorithm; ChainerMN's names mean
            ``auto``.
        mpi_comm: The ranks; all by default.
        compress: ``none``, ``fp16``, ``bf16``, ``int8``, ``topk`` or ``powersgd``; the
            compression error is added to the next step's gradient.
        matrix_rank: Rank of PowerSGD's approximation, from 1.
        overlap: Whether gradients are sent during the backward pass; by default between nodes.
        allreduce_grad_dtype: As of ``pure_nccl``: ``numpy.float16`` means ``compress="fp16"``.
        batched_copy: Ignored: gradients are never copied one by one.

    Raises:
        InputError: An option is invalid.
    """
    from workbench.engine.exchange.communicator import ExchangeCommunicator

    if mpi_comm is None:
        from mpi4py import MPI

        mpi_comm = MPI.COMM_WORLD
    name = "auto" if communicator_name in THEIRS else check_communicator(communicator_name)
    asked = compress or os.environ.get(COMPRESS_VARIABLE) or _codec_of(allreduce_grad_dtype)
    if matrix_rank < 1:
        raise InputError(f"matrix_rank must be at least 1, not {matrix_rank}", "4 is usual.")
    codec = Codec(check_codec(asked))
    comm = ExchangeCommunicator(mpi_comm, ALGORITHMS[name], codec, matrix_rank, overlap)
    comm.set_config("batched_copy", batched_copy)
    return comm


def _codec_of(dtype: Any) -> str:
    """Return the codec for a type that is requested as for ``pure_nccl``."""
    if dtype is None:
        return "none"
    asked = numpy.dtype(dtype)
    if asked.kind != "f":
        raise InputError(
            f"allreduce_grad_dtype must be a type of floats, not {asked}", "numpy.float16 is usual."
        )
    return "fp16" if asked.itemsize == 2 else "none"


ALGORITHMS = {
    "auto": None,
    "ring": Algorithm.RING,
    "doubling": Algorithm.DOUBLING,
    "hierarchical": Algorithm.HIERARCHICAL,
    "mpi": Algorithm.MPI,
}

OPTIONS = {
    COMMUNICATOR_VARIABLE: "--communicator",
    COMPRESS_VARIABLE: "--compress",
    DOUBLE_VARIABLE: "--double-buffering",
}


def asked_option() -> str:
    """Return the first of the run's exchange options, as it is typed; empty if it has none."""
    return next((option for one, option in OPTIONS.items() if os.environ.get(one)), "")


@contextmanager
def substituted() -> Iterator[None]:
    """Replace ChainerMN's ``naive`` by our communicator, if the run has that option."""
    asked = asked_option()
    if not asked:
        yield
        return
    name = os.environ.get(COMMUNICATOR_VARIABLE) or "auto"
    from chainermn.communicators import naive_communicator

    def instead(mpi_comm: Any) -> ExchangeCommunicator:
        if mpi_comm.rank == 0:
            print(
                f"workbench: the script asked for the communicator 'naive' and gets {name!r}, "
                f"as {asked} says.",
                flush=True,
            )
        return create_communicator(name, mpi_comm)

    # create_communicator looks the class up at each call, whatever name it was imported to.
    theirs = naive_communicator.NaiveCommunicator
    naive_communicator.NaiveCommunicator = instead
    try:
        yield
    finally:
        naive_communicator.NaiveCommunicator = theirs
