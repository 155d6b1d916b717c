"""JAX, as workbench asks for it."""

from __future__ import annotations

import sys
from typing import ClassVar

from workbench.engine.framework import Framework


class JaxFramework(Framework):
    """JAX."""

    hooks: ClassVar = {
        "jax._src.clusters": "workbench.frameworks.jax.ranks:offer_ranks",
        "jax.distributed": "workbench.frameworks.jax.ranks:wrap_distributed",
    }

    def begin_run(self, size: int, *, is_script: bool) -> None:
        """Leave what an earlier run has joined, unless it is of use to this one's cell."""
        if "jax" in sys.modules:
            from workbench.frameworks.jax.ranks import jax_ranks

            jax_ranks.begin_run(size, is_script=is_script)

    def leave(self) -> None:
        """Forget the ranks that were joined."""
        if "jax" in sys.modules:
            from workbench.frameworks.jax.ranks import jax_ranks

            jax_ranks.leave()
