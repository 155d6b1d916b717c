"""The functions that the supervisor sends to engines, and what these import before.

It imports nothing, so that a rank does not load the supervisor's side of a cluster.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_LATE = (
    "ipykernel.debugger",
    "IPython.core.completerlib",
    "IPython.core.oinspect",
    "IPython.extensions.storemagic",
    "sqlite3",
)


def generation(nbytes: int) -> bytes:
    """Return an engine's generation, and what mpiexec knows it by.

    These are the process that mpiexec's daemon started for it, and the daemon itself, in reverse.

    Args:
        nbytes: The least size of the answer.
    """
    import json
    import os

    # A forked rank has another parent; see workbench.node.fork_adoption.
    started, _, parent = os.environ.get("WORKBENCH_STUB", "").partition(" ")
    ids = [int(parent or os.getppid()), int(started or os.getpid())]
    answer = [int(os.environ.get("WORKBENCH_GENERATION", "-1")), *ids]
    return json.dumps(answer).ljust(nbytes).encode()


def close_daemons(nbytes: int) -> bytes:
    """Close the listening sockets of MPI's daemons on an engine's host; return a warning, or "".

    Args:
        nbytes: The least size of the answer.
    """
    import json

    from workbench.cluster.daemon_sockets import close_above

    return json.dumps(close_above()).ljust(nbytes).encode()


def call(nbytes: int, name: str, *arguments: Any) -> bytes:
    """Call a function of the engine's entry points, and return its answer as JSON.

    Args:
        nbytes: The least size of the answer.
    """
    import json
    from importlib import import_module

    answer = getattr(import_module("workbench.engine.entrypoints"), name)(*arguments)
    return json.dumps(answer).ljust(nbytes).encode()


def import_kernel() -> None:
    """Import what ipykernel and IPython otherwise import only when an engine has registered.

    The fork server calls this; nothing of it starts a thread.
    """
    import os
    from importlib import import_module

    # As ipyparallel's engine does, before the debugger looks.
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    for name in _LATE:
        import_module(name)
