"""Create communicators, by a call or in place of an unmodified script's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from workbench.core.option import check_known
from workbench.core.performance.exchange_model import Codec
from workbench.core.run.run_options import (
    CODECS,
    COMMUNICATOR_VARIABLE,
    COMMUNICATORS,
    COMPRESS_VARIABLE,
)
from workbench.engine.exchange.exchange_options import ALGORITHMS, find_exchange_option
from workbench.errors import InputError

if TYPE_CHECKING:
    from workbench.frameworks.chainer.communicator import ExchangeCommunicator

# ChainerMN's own names, so that only the name has to change, and the classes that they stand for.
_CLASSES = {
    "naive": "NaiveCommunicator",
    "flat": "FlatCommunicator",
    "non_cuda_aware": "NonCudaAwareCommunicator",
    "pure_nccl": "PureNcclCommunicator",
}


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
            ``hierarchical`` and ``mpi`` name an algorithm, but the last few bytes of a step never
            go round a ring; ChainerMN's names mean ``auto``.
        mpi_comm: The ranks; all by default.
        compress: ``none``, ``fp16``, ``bf16``, ``int8``, ``topk`` or ``powersgd``; the
            compression error is added to the next step's gradient.
        matrix_rank: Rank of PowerSGD's approximation, from 1.
        overlap: Whether gradients are sent during the backward pass; by default between nodes.
        allreduce_grad_dtype: As in ``pure_nccl``: ``numpy.float16`` means ``compress="fp16"``.
        batched_copy: Ignored: gradients are never copied one by one.

    Raises:
        InputError: An option is invalid.
    """
    from workbench.frameworks.chainer.communicator import ExchangeCommunicator, codec_of_type

    if mpi_comm is None:
        from mpi4py import MPI

        mpi_comm = MPI.COMM_WORLD
    name = (
        "auto"
        if communicator_name in _CLASSES
        else check_known(communicator_name, COMMUNICATORS, "communicator")
    )
    asked = compress or os.environ.get(COMPRESS_VARIABLE) or codec_of_type(allreduce_grad_dtype)
    if matrix_rank < 1:
        raise InputError(f"matrix_rank must be at least 1, not {matrix_rank}", "4 is usual.")
    codec = Codec(check_known(asked, CODECS, "compression"))
    comm = ExchangeCommunicator(mpi_comm, ALGORITHMS[name], codec, matrix_rank, overlap)
    comm.set_config("batched_copy", batched_copy)
    return comm


@contextmanager
def substitute() -> Iterator[None]:
    """Create our communicator for ChainerMN's, if the run has an option of the exchange."""
    asked = find_exchange_option()
    if not asked:
        yield
        return
    for name, class_name in _CLASSES.items():
        module = import_module(f"chainermn.communicators.{name}_communicator")
        _hook(getattr(module, class_name), name)
    _present.append((os.environ.get(COMMUNICATOR_VARIABLE) or "auto", asked))
    try:
        yield
    finally:
        _present.pop()


# The communicator that the present run has in place of ChainerMN's, and the option that says so.
_present: list[tuple[str, str]] = []


def _hook(theirs: type, its_name: str) -> None:
    """Have a class of ChainerMN create ours in a run that says so.

    The class itself stays, because ChainerMN asks which communicators are of it.
    """
    if "__new__" in vars(theirs):
        return

    def create(kind: type, mpi_comm: Any = None, *_: Any, **__: Any) -> Any:
        if not _present or kind is not theirs:  # a class derived from it may take more
            return object.__new__(kind)
        name, asked = _present[-1]
        if mpi_comm.rank == 0:
            print(
                f"workbench: the script asked for the communicator {its_name!r} and gets {name!r}, "
                f"as {asked} says.",
                flush=True,
            )
        return create_communicator(name, mpi_comm)

    theirs.__new__ = create  # type: ignore[method-assign,assignment]  # it may return another kind
