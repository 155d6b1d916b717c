"""What is compiled from ``native/audit_events.c``."""

from collections.abc import Callable
from typing import Any

SOURCES: str

def listen(function: Callable[[str, tuple[Any, ...]], None], /) -> None: ...
def activate(flag: bool, /) -> None: ...
