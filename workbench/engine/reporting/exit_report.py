"""Report a rank that exits by ``os._exit`` before its process ends."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable


def report_exits(report: Callable[[int, str], None]) -> None:
    """Make ``os._exit`` call ``report`` with the status and the stack; not in forked children."""
    leave, owner = os._exit, os.getpid()

    def report_and_exit(status: int) -> None:
        try:
            if os.getpid() == owner:
                report(status, "".join(traceback.format_stack()[:-1]))
        finally:
            leave(status)

    os._exit = report_and_exit  # type: ignore[assignment]  # it does not return either
