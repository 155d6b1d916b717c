"""Hugging Face's accelerate, as workbench asks for it."""

from __future__ import annotations

import sys
from typing import ClassVar

from workbench.engine.framework import Framework
from workbench.frameworks.torch.process_groups import groups

_HOOK = "workbench.frameworks.accelerate.hook"


class AccelerateFramework(Framework):
    """Hugging Face's accelerate, whose loops are PyTorch's."""

    hooks: ClassVar = {
        "accelerate.accelerator": f"{_HOOK}:wrap_accelerator",
        "accelerate.launchers": f"{_HOOK}:wrap_launchers",
    }

    def install(self) -> None:
        """Watch it, and have it begin again where it finds no group."""
        super().install()
        groups.followers.append(self.leave)

    def begin_run(self, size: int, *, is_script: bool) -> None:
        """Leave its group if it has begun on another number of ranks."""
        if "accelerate" in sys.modules:
            from workbench.frameworks.accelerate.hook import count_begun_ranks

            if count_begun_ranks() not in (0, size):
                groups.leave()

    def leave(self) -> None:
        """Have it look for the run's ranks again where it is used next."""
        if "accelerate" in sys.modules:
            from workbench.frameworks.accelerate.hook import reset_state

            reset_state()
