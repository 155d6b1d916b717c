"""How the present run is to exchange gradients, as its options say."""

from __future__ import annotations

import os
from typing import NamedTuple

from workbench.core.performance.exchange_model import Algorithm, Codec
from workbench.core.run.run_options import COMMUNICATOR_VARIABLE, COMPRESS_VARIABLE, DOUBLE_VARIABLE

ALGORITHMS = {
    "auto": None,
    "ring": Algorithm.RING,
    "hierarchical": Algorithm.HIERARCHICAL,
    "mpi": Algorithm.MPI,
}
_OPTIONS = {
    COMMUNICATOR_VARIABLE: "--communicator",
    COMPRESS_VARIABLE: "--compress",
    DOUBLE_VARIABLE: "--double-buffering",
}


class ExchangeOptions(NamedTuple):
    """How the gradients of a run are exchanged.

    Args:
        algorithm: None for the fastest.
        delays: Whether each step applies the mean of the step before: double buffering.
        option: The first option that asks for it, as it is typed.
    """

    algorithm: Algorithm | None
    codec: Codec
    delays: bool
    option: str


def find_exchange_option() -> str:
    """Return the first of the run's exchange options, as it is typed; empty if it has none."""
    return next((option for one, option in _OPTIONS.items() if os.environ.get(one)), "")


def exchange_options() -> ExchangeOptions | None:
    """Return how the present run exchanges gradients; None if it has no option of that."""
    if not (option := find_exchange_option()):
        return None
    return ExchangeOptions(
        ALGORITHMS[os.environ.get(COMMUNICATOR_VARIABLE) or "auto"],
        Codec(os.environ.get(COMPRESS_VARIABLE) or "none"),
        bool(os.environ.get(DOUBLE_VARIABLE)),
        option,
    )
