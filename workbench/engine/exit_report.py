"""Report a rank that leaves by ``os._exit`` before it is gone."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable


def tell_of_exits(tell: Callable[[int, str], None]) -> None:
    """Have ``os._exit`` call ``tell`` with the status and the stack; not in forked children."""
    leave, owner = os._exit, os.getpid()

    def tell_and_leave(status: int) -> None:
        try:
            if os.getpid() == owner:
                tell(status, "".join(traceback.format_stack()[:-1]))
        finally:
            leave(status)

    os._exit = tell_and_leave  # type: ignore[assignment]  # it does not return either
