"""Leave the cores to the ranks: who only keeps books or looks on does not take one by waking."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def courteous() -> Iterator[None]:
    """Run the body, in this thread, under a policy that does not preempt on waking.

    Synchronous ranks wait for the slowest, so each wake-up of another process on one of their
    cores would cost all of them. Processes that are started in the body inherit it; a rank takes
    the usual policy again when it joins. Where the system knows no such policy, nothing changes.
    """
    if not hasattr(os, "SCHED_BATCH"):
        yield
        return
    before = os.sched_getscheduler(0)
    _choose(os.SCHED_BATCH)
    try:
        yield
    finally:
        _choose(before)


def _choose(policy: int) -> None:
    with contextlib.suppress(OSError):  # a container may forbid it
        os.sched_setscheduler(0, policy, os.sched_param(0))
