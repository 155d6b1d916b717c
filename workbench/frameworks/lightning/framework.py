"""Lightning, as workbench asks for it."""

from __future__ import annotations

import sys
from typing import ClassVar

from workbench.engine.framework import Framework

_STRATEGIES = (
    "lightning.pytorch.strategies.ddp",
    "lightning.fabric.strategies.ddp",
    "pytorch_lightning.strategies.ddp",
    "lightning_fabric.strategies.ddp",
)


class LightningFramework(Framework):
    """Lightning, whose loops are PyTorch's."""

    hooks: ClassVar = {
        "lightning.pytorch": "workbench.frameworks.values:wrap_lightning",
        "pytorch_lightning": "workbench.frameworks.values:wrap_lightning",
        **dict.fromkeys(_STRATEGIES, "workbench.engine.process_launchers:wrap_lightning"),
    }

    def install(self) -> None:
        """Watch Lightning, and let it train where it would see a prompt.

        It refuses to train by processes that another launcher has started where Python has one. A
        rank has none, although IPython says so.
        """
        vars(sys).pop("ps1", None)
        super().install()
