"""Hugging Face's accelerate, as workbench asks for it."""

from __future__ import annotations

from typing import ClassVar

from workbench.engine.framework import Framework


class AccelerateFramework(Framework):
    """Hugging Face's accelerate, whose loops are PyTorch's."""

    hooks: ClassVar = {
        "accelerate.accelerator": "workbench.frameworks.values:wrap_accelerate",
        "accelerate.launchers": "workbench.engine.process_launchers:wrap_accelerate",
    }
