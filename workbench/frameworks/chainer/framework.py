"""Chainer, as workbench asks for it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar

from workbench.compat.finder import CHAINER, incompatibility
from workbench.engine.framework import Framework
from workbench.frameworks.chainer.create import substitute

if TYPE_CHECKING:
    from workbench.engine.snapshot.entries import LoopData, StateEntry

_HOOK = "workbench.frameworks.chainer.hook"
_LOOP = "workbench.frameworks.chainer.loop"


class ChainerFramework(Framework):
    """Chainer and ChainerMN."""

    hooks: ClassVar = {
        "chainer.training.trainer": f"{_HOOK}:wrap_trainer",
        "chainermn.extensions.checkpoint": f"{_HOOK}:wrap_checkpointer",
        "chainer": f"{_LOOP}:wrap_chainer",
        "chainermn.optimizers": f"{_LOOP}:wrap_multi_node",
    }
    packages = ("chainer", "chainermn", "cupy")
    distributions = ("chainer", "cupy", "cupy-cuda12x", "cupy-cuda13x")
    requirements: ClassVar = {
        **dict.fromkeys(("chainer", "chainermn"), f"chainer=={CHAINER}"),
        "cupy": "'dist-workbench[cuda]'",
    }
    preloaded = ("chainermn",)
    preloaded_later = (
        "chainermn.communicators.naive_communicator",
        "workbench.frameworks.chainer.saved_trainer",
    )
    harmless = (
        "chainer.dataset",
        "chainer.datasets",
        "chainer.iterators",
        "chainer.training",
        "chainermn",
        "cupy",
    )
    caches = ("CHAINER_DATASET_ROOT", "CUPY_CACHE_DIR")
    data = "an iterator of Chainer"

    def during_run(self) -> AbstractContextManager[object]:
        """Create our communicator for ChainerMN's, if the run has an option of the exchange."""
        return substitute()

    def explain(self, error: BaseException) -> str:
        """Return what an error means that a newer NumPy or Python than Chainer's has raised."""
        if isinstance(error, ModuleNotFoundError) and error.name in ("chainer", "chainermn"):
            return incompatibility(CHAINER) or ""
        compat = sys.modules.get("workbench.compat")
        return (compat and compat.explain(error)) or ""

    def uses_device(self) -> bool:
        """Return whether CuPy has been imported."""
        return "cupy" in sys.modules

    def restore_random(self, states: Mapping[str, Any], seed: int) -> None:
        """Have CuPy's generator, which cannot be read, repeat no numbers."""
        cupy, chainer = sys.modules.get("cupy"), sys.modules.get("chainer")
        if cupy is not None and chainer is not None and chainer.backends.cuda.available:
            cupy.random.seed(seed)

    def state_entry(self, name: str, value: Any) -> type[StateEntry] | None:
        """Return how an object that Chainer serializes is saved."""
        if "chainer" not in sys.modules or not hasattr(value, "serialize"):
            return None
        from workbench.frameworks.chainer.entries import chainer_entry

        return chainer_entry(value)

    def loop_data(self, data: Any) -> LoopData | None:
        """Return what gives a loop the batches of an iterator."""
        if "chainer" not in sys.modules:
            return None
        from workbench.frameworks.chainer.entries import ChainerData, is_iterator

        return ChainerData(data) if is_iterator(data) else None
