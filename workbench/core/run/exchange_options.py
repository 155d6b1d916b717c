"""The options of a gradient exchange: communicator, compression and double buffering."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.core.performance.exchange_model import Codec
from workbench.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

COMMUNICATOR_VARIABLE = "WORKBENCH_COMMUNICATOR"
COMPRESS_VARIABLE = "WORKBENCH_COMPRESS"
DOUBLE_VARIABLE = "WORKBENCH_DOUBLE_BUFFERING"
COMMUNICATORS = ("auto", "ring", "doubling", "hierarchical", "mpi")
CODECS = tuple(str(codec) for codec in Codec)


def codec_of_type(dtype: DTypeLike) -> str:
    """Return the codec for ``allreduce_grad_dtype`` of ChainerMN's ``pure_nccl``.

    Raises:
        InputError: It is no type of floats.
    """
    if dtype is None:
        return "none"
    import numpy  # only where there are ranks: the command starts sooner without

    asked = numpy.dtype(dtype)
    if asked.kind != "f":
        raise InputError(
            f"allreduce_grad_dtype must be a type of floats, not {asked}", "numpy.float16 is usual."
        )
    return "fp16" if asked.itemsize == 2 else "none"
