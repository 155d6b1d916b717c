"""Waits for MPI's messages in one call of C, in which Python's other threads run.

Where the package was built with a C compiler, ``native/message_kernels.c`` calls the functions of
MPI's library by their addresses.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from mpi4py import MPI

from workbench.engine.compiled_modules import require_current

if TYPE_CHECKING:
    from workbench.engine.exchange.message_kernels import Waits
try:
    from workbench.engine.exchange import message_kernels as compiled

    require_current(compiled)
except ImportError:  # built without a C compiler, for another system, or for another Python
    compiled = None  # type: ignore[assignment]  # who uses it asks first

__all__ = ["address_of", "compiled", "direct_waits"]


def direct_waits(looks: int, pauses: tuple[float, float]) -> Waits | None:
    """Return how to wait for messages.

    None where that is not compiled, or mpi4py's library does not give its functions away.

    Args:
        looks: Without a pause.
        pauses: Seconds of the first and the later pauses between two looks.
    """
    test = address_of("MPI_Test")
    return compiled.Waits(test, looks, pauses, MPI.Exception) if compiled and test else None


def address_of(function: str) -> int:
    """Return the address of a function of mpi4py's library; 0 if it does not give that away."""
    try:
        found = getattr(ctypes.CDLL(MPI.__file__), function)
    except AttributeError:
        return 0
    return ctypes.cast(found, ctypes.c_void_p).value or 0
