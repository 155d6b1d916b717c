"""Have the Trainer of Hugging Face's transformers report what it logs, and outlive its ranks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, ClassVar

from workbench.engine.framework import Framework

if TYPE_CHECKING:
    from workbench.engine.snapshot.entries import StateEntry


class TransformersFramework(Framework):
    """Hugging Face's transformers, whose loops are PyTorch's."""

    harmless = ("datasets", "huggingface_hub")
    caches = ("HF_HOME",)
    hooks: ClassVar = {
        "transformers.trainer": "workbench.frameworks.transformers_trainer:wrap_trainer"
    }
    requirements: ClassVar = {"transformers": "transformers"}

    def state_entry(self, name: str, value: Any) -> type[StateEntry] | None:
        """Return how the sums of a Trainer are saved."""
        if "transformers.trainer" not in sys.modules:
            return None
        from workbench.frameworks.transformers_trainer import SumsEntry, TrainerSums

        return SumsEntry if isinstance(value, TrainerSums) else None
