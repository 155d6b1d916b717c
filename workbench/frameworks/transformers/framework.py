"""Hugging Face's transformers, as workbench asks for it."""

from __future__ import annotations

from typing import ClassVar

from workbench.engine.framework import Framework


class TransformersFramework(Framework):
    """Hugging Face's transformers, whose loops are PyTorch's."""

    hooks: ClassVar = {
        "transformers.trainer": "workbench.frameworks.transformers.hook:wrap_trainer"
    }
