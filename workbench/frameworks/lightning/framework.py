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
        "lightning.pytorch": "workbench.frameworks.lightning.hook:wrap_package",
        "pytorch_lightning": "workbench.frameworks.lightning.hook:wrap_package",
        **dict.fromkeys(_STRATEGIES, "workbench.frameworks.lightning.hook:wrap_strategy"),
    }

    def install(self) -> None:
        """Watch Lightning, and let it train where it would see a prompt.

        It refuses to train by processes that another launcher has started where Python has one. A
        rank has none, although IPython says so.
        """
        vars(sys).pop("ps1", None)
        super().install()
