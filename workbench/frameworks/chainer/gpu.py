"""Average gradients on GPUs: by NCCL where it is installed, else through host memory."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy
from mpi4py import MPI

from workbench.core.performance.exchange_model import Codec
from workbench.engine.exchange import nccl

_TYPES = {Codec.NONE: None, Codec.FP16: numpy.float16}


class Device:
    """The exchange of CuPy's arrays; creation is collective.

    Args:
        codec: NCCL sums the encoded values, so it supports half precision alone.
        may_nccl: Whether NCCL is used where it can be; not if an algorithm of ours was named.
    """

    def __init__(self, mpi_comm: Any, codec: Codec, *, may_nccl: bool = True) -> None:
        self._mpi_comm, self._codec = mpi_comm, codec
        # Chainer imports CuPy where it is installed. If no rank has it, no step looks for a GPU.
        self._may_nccl = (
            may_nccl and codec in _TYPES and mpi_comm.allreduce("cupy" in sys.modules, MPI.LOR)
        )
        self._nccl: Any = None
        self._decided: dict[int | None, bool] = {}
        self._pinned: dict[str, Any] = {}

    def takes(self, parameters: Iterable[Any]) -> bool:
        """Return whether NCCL averages the gradients: all are on GPUs, and it has the codec.

        Collective the first time that parameters are on a device.
        """
        if not self._may_nccl:
            return False
        gpus = {_gpu_of(parameter.data) for parameter in parameters}
        if not gpus:
            return False
        gpu = gpus.pop() if len(gpus) == 1 else None
        if gpu not in self._decided:
            obstacle = nccl.nccl_obstacle(self._mpi_comm, gpu)
            if obstacle and gpu is not None and self._mpi_comm.rank == 0:
                print(f"workbench: gradients go through host memory: {obstacle}.", flush=True)
            self._decided[gpu] = not obstacle
        return self._decided[gpu]

    def mean(self, model: Any, zero_fill: bool) -> None:
        """Average them with ChainerMN's NCCL communicator, packed into one buffer."""
        if self._nccl is None:
            from chainermn.communicators.pure_nccl_communicator import PureNcclCommunicator

            # In a run with an option of the exchange, a call of the class would create ours.
            self._nccl = object.__new__(PureNcclCommunicator)
            self._nccl.__init__(self._mpi_comm)
            self._nccl.set_config("batched_copy", True)
            self._nccl.set_config("allreduce_grad_dtype", _TYPES[self._codec])
        self._nccl.multi_node_mean_grad(model, zero_fill)

    def on_host(self, name: str, gradient: Any) -> Any:
        """Return a gradient in host memory; pinned, and the same buffer at every step."""
        if gradient is None or isinstance(gradient, numpy.ndarray):
            return gradient
        if not hasattr(gradient, "__cuda_array_interface__"):
            raise TypeError(f"{name}: gradients are NumPy's or CuPy's arrays, not {type(gradient)}")
        import cupyx

        kept = self._pinned.get(name)
        if kept is None or (kept.shape, kept.dtype) != (gradient.shape, gradient.dtype):
            kept = self._pinned[name] = cupyx.empty_pinned(gradient.shape, gradient.dtype)
        gradient.get(out=kept)
        return kept

    def copied(self, gradient: Any) -> Any:
        """Return a copy of a gradient in host memory, which the next step does not change."""
        if gradient is None or isinstance(gradient, numpy.ndarray):
            return gradient
        return gradient.get()

    def like(self, parameter: Any, mean: Any) -> Any:
        """Return a mean on its parameter's device."""
        if mean is None or isinstance(parameter.data, numpy.ndarray):
            return mean
        return parameter.xp.asarray(mean)

    def put_back(self, parameter: Any, mean: Any) -> None:
        """Write a mean to its gradient's memory."""
        gradient = parameter.grad
        if gradient is not None and not isinstance(gradient, numpy.ndarray):
            gradient.set(mean.astype(gradient.dtype, copy=False))


def _gpu_of(array: Any) -> int | None:
    """Return the number of an array's GPU; None in host memory."""
    return None if isinstance(array, numpy.ndarray) else int(array.device.id)
