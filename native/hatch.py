"""Compile the package's C when a wheel or an editable installation is made of this tree.

Without a C compiler or Python's headers the package is complete: what is compiled here is quicker
than the NumPy beside it, and does the same.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from setuptools import Distribution, Extension

MODULE = "workbench.engine.exchange.codec_kernels"
SOURCE = "native/codec_kernels.c"
# No two operations become one that rounds once: ranks that use NumPy compute the same numbers.
OPTIONS = ["-O3", "-ffp-contract=off"]


class NativeBuildHook(BuildHookInterface):  # type: ignore[type-arg]  # of hatchling's configuration
    """Puts the compiled module beside the Python that uses it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and have a wheel carry the result."""
        root = Path(self.root)
        built = root / (MODULE.replace(".", "/") + sysconfig.get_config_var("EXT_SUFFIX"))
        built.unlink(missing_ok=True)
        compile_module(root)
        if not built.exists():
            self.app.display_warning("No C compiler: gradients will be compressed by NumPy alone.")
            return
        build_data["artifacts"].append(f"/{built.relative_to(root).as_posix()}")
        build_data["pure_python"], build_data["infer_tag"] = False, True


def compile_module(root: Path) -> None:
    """Compile the module into the package; does nothing where that cannot be done."""
    extension = Extension(MODULE, [SOURCE], extra_compile_args=OPTIONS, optional=True)
    distribution = Distribution({"name": "workbench", "ext_modules": [extension]})
    command = distribution.get_command_obj("build_ext")
    command.inplace, command.build_temp = True, str(root / "build")
    command.ensure_finalized()
    command.run()
