"""Let JAX find the ranks of a run, and begin again in another one.

JAX joins its processes once in their lives, and a rank executes many runs. What it has joined stays
for later cells on as many ranks, and all ranks leave it alike, because each waits there for the
others. Collective operations and compilation are JAX's own.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any, ClassVar

from workbench.engine.framework import Framework
from workbench.engine.run_context import current


class JaxRanks:
    """What JAX keeps of the ranks of earlier runs in this process."""

    def __init__(self) -> None:
        self._is_of_earlier_run = False

    def beginning(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``jax.distributed.initialize``, which also begins again in another run."""

        @functools.wraps(original)
        def begin(*args: Any, **kwargs: Any) -> Any:
            if self._is_of_earlier_run and current() is not None:
                self._forget()
            return original(*args, **kwargs)

        return begin

    def begin_run(self, size: int, *, is_script: bool) -> None:
        """Leave what an earlier run has joined, unless it is of use to this one's cell.

        Args:
            size: Number of ranks of the run.
            is_script: Whether a script begins, which expects a process of its own.
        """
        joined = _count_ranks()
        if joined and (is_script or joined != size):
            self.leave()
        bridge = sys.modules.get("jax._src.xla_bridge")
        computes = getattr(bridge, "backends_are_initialized", None)
        self._is_of_earlier_run = computes is not None and computes()

    def leave(self) -> None:
        """Forget the ranks that were joined, if any; collective over them."""
        if _count_ranks():
            self._forget()

    def _forget(self) -> None:
        """Have JAX begin as in a new process."""
        state: Any = _state()
        with contextlib.suppress(RuntimeError):  # of a rank that has failed
            state.shutdown()
        vars(state).clear()  # the values of its class are those of one process
        importlib.import_module("jax.extend.backend").clear_backends()
        self._is_of_earlier_run = False


jax_ranks = JaxRanks()


def wrap_distributed(module: Any) -> None:
    """Let JAX begin again in another run."""
    if not hasattr(module.initialize, "__wrapped__"):
        module.initialize = jax_ranks.beginning(module.initialize)


def offer_ranks(module: Any) -> None:
    """Make this run the first of the surroundings in which JAX looks for its processes."""
    kind: Any = getattr(module, "ClusterEnv", None)
    known = getattr(kind, "_cluster_types", None)
    if kind is None or not isinstance(known, list):
        return  # another release, which is given addresses and numbers by the program

    class WorkbenchCluster(kind):
        """The ranks of the present run."""

        name = "workbench"

        @classmethod
        def is_env_present(cls) -> bool:
            return current() is not None

        @classmethod
        def get_coordinator_address(
            cls, timeout_secs: int | None, override_coordinator_port: str | None
        ) -> str:
            port = override_coordinator_port or os.environ["MASTER_PORT"]
            return f"{os.environ['MASTER_ADDR']}:{port}"

        @classmethod
        def get_process_count(cls) -> int:
            return int(os.environ["WORLD_SIZE"])

        @classmethod
        def get_process_id(cls) -> int:
            return int(os.environ["RANK"])

        @classmethod
        def get_local_process_id(cls) -> int:
            return int(os.environ["LOCAL_RANK"])

    # Each class that is made there goes to the end of the list.
    known.insert(0, known.pop(known.index(WorkbenchCluster)))


def _state() -> Any:
    """Return what JAX knows of its processes; None before it is imported."""
    return getattr(sys.modules.get("jax._src.distributed"), "global_state", None)


def _count_ranks() -> int:
    """Return on how many ranks JAX has begun; 0 if it has not."""
    state = _state()
    began = state is not None and (state.client is not None or state.num_processes > 1)
    return int(state.num_processes) if began else 0


class JaxFramework(Framework):
    """JAX."""

    hooks: ClassVar = {
        "jax._src.clusters": "workbench.frameworks.jax:offer_ranks",
        "jax.distributed": "workbench.frameworks.jax:wrap_distributed",
    }
    requirements: ClassVar = {"jax": "jax"}

    harmless = ("jax",)

    def begin_run(self, size: int, *, is_script: bool) -> None:
        """Leave what an earlier run has joined, unless it is of use to this one's cell."""
        jax_ranks.begin_run(size, is_script=is_script)

    def leave(self) -> None:
        """Forget the ranks that were joined."""
        jax_ranks.leave()
