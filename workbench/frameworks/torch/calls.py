"""Count the main thread's time in PyTorch's own messages and collective calls as time in MPI is.

So a loop that exchanges by ``torch.distributed`` has step times, and a rank that waits there is
named with its call. What DistributedDataParallel exchanges by itself is not seen here.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

from workbench.engine.run_context import current
from workbench.engine.timing.mpi_calls import watch

MESSAGES = ("send", "recv")
COLLECTIVES = (
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
)
_MAIN = threading.main_thread().ident


def wrap_calls(module: Any) -> None:
    """Time the calls of PyTorch's module of collective calls."""
    package = sys.modules.get("torch.distributed")
    for name in (*MESSAGES, *COLLECTIVES):
        original = getattr(module, name, None)
        if original is None or hasattr(original, "_workbench"):
            continue
        timed = _timed(original, name, passes=name in MESSAGES)
        setattr(module, name, timed)
        if package is not None and getattr(package, name, None) is original:
            setattr(package, name, timed)


def wrap_pipeline(module: Any) -> None:
    """Time a pipeline's messages."""
    name = "_wait_batch_p2p"
    original = getattr(module, name, None)
    if original is not None and not hasattr(original, "_workbench"):
        setattr(module, name, _timed(original, "a pipeline's messages", passes=True))


def _timed(original: Callable[..., Any], name: str, *, passes: bool) -> Callable[..., Any]:
    """Return a call that is timed; one inside another is a part of that.

    Args:
        passes: Whether it is a message from one rank to another.
    """
    ident = threading.get_ident
    torch: Any = sys.modules["torch"]

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        # PyTorch's compiler looks for its own functions, and finds them behind this question.
        if torch.compiler.is_dynamo_compiling():
            return original(*args, **kwargs)
        if ident() != _MAIN or watch.call or current() is None:
            return original(*args, **kwargs)
        watch.enter(name)
        try:
            return original(*args, **kwargs)
        finally:
            seconds = watch.leave()
            if passes:
                watch.passed += seconds

    vars(call)["_workbench"] = True
    return call
