"""Compile the package's C when a wheel or an editable installation is made of this tree.

Without a C compiler or Python's headers the package is complete: what is compiled here is quicker
than the Python beside it, and does the same.
"""

from __future__ import annotations

import sysconfig
from hashlib import sha256
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from setuptools import Distribution, Extension

# Each module of the package, and its source.
MODULES = {
    "workbench.engine.exchange.codec_kernels": "native/codec_kernels.c",
    "workbench.engine.exchange.ring_kernels": "native/ring_kernels.c",
    "workbench.engine.audit_events": "native/audit_events.c",
    "workbench.engine.snapshot.checksum": "native/checksum.c",
    "workbench.engine.timed_calls": "native/timed_calls.c",
}
# What they include.
SHARED = "native/module.h"
# No two operations become one that rounds once: ranks that use NumPy compute the same numbers.
# The last one takes back what CFLAGS may say: then no number would be known not to be finite.
OPTIONS = ["-O3", "-ffp-contract=off", "-fno-fast-math"]


class NativeBuildHook(BuildHookInterface):  # type: ignore[type-arg]  # of hatchling's configuration
    """Puts the compiled modules beside the Python that uses them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and have a wheel carry the result."""
        root, suffix = Path(self.root), sysconfig.get_config_var("EXT_SUFFIX")
        places = [root / (name.replace(".", "/") + suffix) for name in MODULES]
        for place in places:
            place.unlink(missing_ok=True)
        compile_modules(root)
        built = [f"/{place.relative_to(root).as_posix()}" for place in places if place.exists()]
        if built:
            build_data["artifacts"] += built
            build_data["pure_python"], build_data["infer_tag"] = False, True
        else:
            self.app.display_warning("Without a C compiler: parts will run in Python, more slowly.")


def digest_of(root: Path, source: str) -> str:
    """Return what a module says of its sources, for workbench/engine/compiled_modules.py."""
    return sha256((root / source).read_bytes() + (root / SHARED).read_bytes()).hexdigest()


def compile_modules(root: Path) -> None:
    """Compile the modules into the package; leaves out those that cannot be compiled."""
    extensions = [
        Extension(
            name,
            [source],
            define_macros=[("WORKBENCH_SOURCES", f'"{digest_of(root, source)}"')],
            extra_compile_args=OPTIONS,
            extra_link_args=OPTIONS[-1:],
            depends=[SHARED],
            optional=True,
        )
        for name, source in MODULES.items()
    ]
    distribution = Distribution({"name": "workbench", "ext_modules": extensions})
    command = distribution.get_command_obj("build_ext")
    command.inplace, command.build_temp = True, str(root / "build")
    command.ensure_finalized()
    command.run()
