"""Have the Trainer of Hugging Face's transformers report what it logs, and outlive its ranks."""

from __future__ import annotations

from typing import ClassVar

from workbench.engine.framework import Framework


class TransformersFramework(Framework):
    """Hugging Face's transformers, whose loops are PyTorch's."""

    harmless = ("datasets", "huggingface_hub")
    caches = ("HF_HOME",)
    hooks: ClassVar = {
        "transformers.trainer": "workbench.frameworks.transformers_trainer:wrap_trainer"
    }
    requirements: ClassVar = {"transformers": "transformers"}
