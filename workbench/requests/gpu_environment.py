"""Find out whether this computer's environment computes on GPUs."""

from __future__ import annotations

import functools
from importlib.metadata import distributions

from workbench.core.fleet.cuda import has_cuda


@functools.cache
def has_cuda_here() -> bool:
    """Whether CuPy, or PyTorch for CUDA, is installed here; read once."""
    return has_cuda((one.metadata["Name"] or "", one.version) for one in distributions())
