"""Horovod, as workbench asks for it."""

from __future__ import annotations

from workbench.engine.framework import Framework
from workbench.frameworks.horovod.finder import offer_horovod


class HorovodFramework(Framework):
    """Horovod; where it is not installed, scripts find a module of ours."""

    packages = ("horovod",)
    calls = ("/workbench/frameworks/horovod/collectives.py",)

    def install(self) -> None:
        """Answer imports of ``horovod`` that nothing else answers."""
        offer_horovod()
