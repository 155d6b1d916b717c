"""Parse the options of a gradient exchange: communicator and compression."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
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


def check_communicator(name: str) -> str:
    """Return ``name`` if it is valid.

    Raises:
        InputError: There is no such communicator.
    """
    return _known(name, COMMUNICATORS, "communicator")


def check_codec(name: str) -> str:
    """Return ``name`` if it is valid.

    Raises:
        InputError: There is no such compression.
    """
    return _known(name, CODECS, "compression")


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


def exchange_environment(
    communicator: str | None, compress: str | None, *, double_buffering: bool = False
) -> tuple[tuple[str, str], ...]:
    """Return the environment variables with the exchange options of a run's ranks.

    Raises:
        InputError: A name is unknown.
    """
    found = []
    if communicator is not None:
        found.append((COMMUNICATOR_VARIABLE, check_communicator(communicator)))
    if compress is not None:
        found.append((COMPRESS_VARIABLE, check_codec(compress)))
    if double_buffering:
        found.append((DOUBLE_VARIABLE, "1"))
    return tuple(found)


def _known(name: str, names: Sequence[str], what: str) -> str:
    if name in names:
        return name
    close = difflib.get_close_matches(name, names, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"use one of {', '.join(names)}."
    raise InputError(f"There is no {what} {name!r}", hint)
