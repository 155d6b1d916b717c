"""The compiled module of native/message_kernels.c; single_message.py says what a message does."""

from collections.abc import Sequence
from typing import Any

from workbench.engine.exchange.transport import Array

SOURCES: str

class Waits:
    def __init__(
        self, test: int, looks: int, pauses: tuple[float, float], error: type[Exception], /
    ) -> None: ...
    def settle(self, request: int, patience: float, /) -> None: ...

class Sums:
    def __init__(
        self,
        functions: tuple[int, int],
        handles: tuple[int, int, int],
        in_place: int,
        has_pointers: bool,
        nowhere: int,
        ranks: tuple[int, int],
        tag: int,
        error: type[Exception],
        /,
    ) -> None: ...
    def add_up(self, array: Array, room: Array | None, /) -> None: ...
    def message(
        self,
        rows: list[tuple[str, tuple[int, ...], int]],
        array: Array,
        room: Array | None,
        factor: float,
        /,
    ) -> Message: ...

class Message:
    @property
    def seconds(self) -> float: ...
    def average(
        self, names: Sequence[str], gradients: Sequence[Array | None], /
    ) -> list[tuple[int, Array]] | None: ...
    def give(self, gradients: Sequence[Any], /) -> list[tuple[int, Array]]: ...
