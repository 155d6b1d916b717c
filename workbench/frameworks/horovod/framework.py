"""Horovod, as workbench asks for it."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from workbench.engine.framework import Framework

_HERE = "workbench.frameworks.horovod"
_HOMES = {
    "horovod": _HERE,
    "horovod.torch": f"{_HERE}.torch_names",
    "horovod.torch.compression": f"{_HERE}.torch_names",
    "horovod.torch.elastic": f"{_HERE}.elastic",
    "horovod.torch.functions": f"{_HERE}.torch_names",
    "horovod.torch.mpi_ops": f"{_HERE}.torch_names",
}
_PACKAGES = ("horovod", "horovod.torch")


class HorovodFramework(Framework):
    """Horovod; where it is not installed, scripts find a module of ours."""

    packages = ("horovod",)
    calls = ("/workbench/frameworks/horovod/collectives.py",)

    def install(self) -> None:
        """Answer imports of ``horovod`` that nothing else answers."""
        offer_horovod()


def offer_horovod() -> None:
    """Answer imports of ``horovod`` that all other finders leave open."""
    if not any(isinstance(one, _LastFinder) for one in sys.meta_path):
        sys.meta_path.append(_LastFinder())


class _LastFinder:
    """Comes last, so that a real Horovod is found before."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name == "horovod" or (name in _HOMES and _is_ours()):
            return ModuleSpec(name, _Loader(), is_package=name in _PACKAGES)
        if name.startswith("horovod.") and name.count(".") == 1 and _is_ours():
            raise ModuleNotFoundError(
                f"{name} needs Horovod itself, which is not installed here: "
                "workbench brings only horovod.torch.",
                name=name,
            )
        return None


def _is_ours() -> bool:
    spec = getattr(sys.modules.get("horovod"), "__spec__", None)
    return spec is not None and isinstance(spec.loader, _Loader)


class _Loader(Loader):
    """Fills a module with the public names of ours."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        ours = import_module(_HOMES[module.__name__])
        names = [name for name in vars(ours) if not name.startswith("_")] + ["__doc__"]
        names += ["__getattr__"] if "__getattr__" in vars(ours) else []
        vars(module).update({name: vars(ours)[name] for name in names})
        if module.__name__ == "horovod.torch":  # as Horovod does, for hvd.elastic
            import_module("horovod.torch.elastic")
