"""The compiled module of native/ring_kernels.c; ring.py says what it is for."""

import socket
from collections.abc import Callable, Sequence

from workbench.engine.exchange.transport import Array

SOURCES: str

def mean(
    right: tuple[socket.socket | int, ...],
    left: tuple[socket.socket | int, ...],
    parts: list[list[Array]],
    rank: int,
    factor: float,
    look: Callable[[], object],
    /,
) -> Sequence[tuple[int, int, bool]]: ...
