"""A ChainerMN communicator that averages gradients with our exchanger."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import get_ident, main_thread
from typing import TYPE_CHECKING, Any

import chainer
import numpy
from chainermn.communicators.mpi_communicator_base import MpiCommunicatorBase
from mpi4py import MPI

from workbench.core.performance.exchange_model import Algorithm, Codec
from workbench.core.run.run_options import COMPRESS_VARIABLE, DOUBLE_VARIABLE
from workbench.engine.exchange import nccl, summary
from workbench.engine.exchange.bucket_layout import BucketLayout
from workbench.engine.exchange.costs import run_trial
from workbench.engine.exchange.exchanger import Exchanger
from workbench.engine.exchange.reducer import reducer_of
from workbench.engine.exchange.summary import CALL, REPORT_SECONDS, report_kind, report_tally
from workbench.engine.exchange.transport import transport_of
from workbench.engine.timing.mpi_calls import watch
from workbench.engine.timing.step_probe import ProbeMeetings
from workbench.errors import InputError
from workbench.frameworks.chainer.optimizer import DelayedOptimizer, OverlappingOptimizer

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from workbench.frameworks.torch.averaging import HostCopies


_TYPES = {Codec.NONE: None, Codec.FP16: numpy.float16}

_MAIN = main_thread().ident


def codec_of_type(dtype: DTypeLike) -> str:
    """Return the codec for ``allreduce_grad_dtype`` of ChainerMN's ``pure_nccl``.

    Raises:
        InputError: It is no type of floats.
    """
    if dtype is None:
        return "none"
    asked = numpy.dtype(dtype)
    if asked.kind != "f":
        raise InputError(
            f"allreduce_grad_dtype must be a type of floats, not {asked}", "numpy.float16 is usual."
        )
    return "fp16" if asked.itemsize == 2 else "none"


class ExchangeCommunicator(MpiCommunicatorBase):
    """Averages gradients in buckets, optionally overlapped and compressed.

    Args:
        mpi_comm: The ranks.
        algorithm: The algorithm for all buckets; by default the fastest for size and link.
        compress: The codec of large gradients.
        rank: Of PowerSGD's approximation.
        overlap: Whether buckets are sent during the backward pass; by default between nodes.
    """

    def __init__(
        self,
        mpi_comm: Any,
        algorithm: Algorithm | None = None,
        compress: Codec = Codec.NONE,
        rank: int = 4,
        overlap: bool | None = None,
    ) -> None:
        super().__init__(mpi_comm)
        self._options = (algorithm, compress, rank, overlap)
        transport = transport_of(mpi_comm)
        self.reducer = reducer_of(transport, algorithm)
        wanted = self.reducer.nodes > 1 if overlap is None else overlap
        self.overlaps = wanted and transport.may_thread and transport.size > 1
        self.lacks_threads = wanted and not transport.may_thread
        self.exchanger = self.another()
        self._is_taken = False
        self.device = self._device()
        self._copies: HostCopies | None = None
        self.forgiving = False
        """Whether non-finite gradients are allowed, as for loss scaling."""
        self._due = 0.0
        self._described: dict[str, float] | None = None
        self._describing: Exchanger | None = None
        self._printed = ""
        self._meetings = ProbeMeetings(mpi_comm.size, lambda: transport.meetings)

    def set_config(self, name: str, value: Any = True, **kwargs: Any) -> None:
        """Take an option of ChainerMN's communicators.

        ``allreduce_grad_dtype`` in half precision is the codec ``fp16``, unless one was named.
        """
        if name != "allreduce_grad_dtype":
            super().set_config(name, value, **kwargs)
            return
        codec, is_named = Codec(codec_of_type(value)), bool(os.environ.get(COMPRESS_VARIABLE))
        algorithm, own, rank, overlap = self._options
        if own is Codec.NONE and codec is not own and not is_named:
            self._options = (algorithm, codec, rank, overlap)
            self.exchanger, self.device = self.another(), self._device()

    @property
    def codec(self) -> Codec:
        """The codec of large gradients."""
        return self.exchanger.codec

    @property
    def puts_off(self) -> bool:
        """Whether compression postpones large parts of gradients to later steps."""
        return self.exchanger.codec in (Codec.TOPK, Codec.POWERSGD)

    def split(self, color: int, key: int) -> ExchangeCommunicator:
        """Return a communicator of the ranks with the same color, with the same options."""
        return type(self)(self.mpi_comm.Split(color, key), *self._options)

    def multi_node_mean_grad(self, model: Any, zero_fill: bool = False) -> None:
        """Replace the model's gradients by their means over the ranks."""
        parameters = [(n, p) for n, p in sorted(model.namedparams()) if p.data is not None]
        if zero_fill:
            for _, parameter in parameters:
                if parameter.grad is None:
                    parameter.grad = parameter.xp.zeros_like(parameter.data)
        if self.device.takes(p for _, p in parameters):
            self.device.mean(model, zero_fill)
            return
        names = [name for name, _ in parameters]
        gradients = [self.device.on_host(n, p.grad) for n, p in parameters]
        shapes = [parameter.data.shape for _, parameter in parameters]
        for number, mean in self.mean(names, gradients, shapes):
            if isinstance(parameters[number][1].grad, numpy.ndarray):
                parameters[number][1].grad = mean
            else:
                gradients[number] = mean
        for (_, parameter), gradient in zip(parameters, gradients, strict=True):
            self.device.put_back(parameter, gradient)
            if chainer.is_debug() and parameter.grad is not None:
                self._ensure_all_finite(parameter.grad)

    def mean(
        self, names: list[str], gradients: list[Any], shapes: list[tuple[int, ...]]
    ) -> list[tuple[int, Any]]:
        """Replace gradients by their means; see ``Exchanger.mean``."""
        exchanger, meetings = self.exchanger, self._meetings
        if counts := get_ident() == _MAIN:  # another one does not hold up the training
            watch.enter(CALL)
        exchanger.measures = due = watch.since > self._due
        try:
            if counts and meetings.follow(watch):
                meetings.meet(watch)
            news = exchanger.mean(names, gradients, shapes, forgiving=self.forgiving)
            if counts:
                meetings.calls += 1
                self._count(exchanger)
        finally:
            if counts:
                watch.leave()
        if due:
            self._report(exchanger)
        return news

    def allreduce_gradients(self, parameters: Any) -> None:
        """Replace the gradients of a PyTorch model's parameters by their means over the ranks.

        Args:
            parameters: ``model.parameters()`` or ``model.named_parameters()``.
        """
        from workbench.frameworks.torch.averaging import HostCopies, allreduce_gradients

        if self._copies is None:
            self._copies = HostCopies()
        allreduce_gradients(parameters, self.mean, self._copies)

    def multi_node_optimizer(
        self, optimizer: Any, communicator: Any, zero_fill: bool, *, double_buffering: bool = False
    ) -> Any:
        """Return what ``chainermn.create_multi_node_optimizer`` creates for this communicator."""
        if double_buffering or os.environ.get(DOUBLE_VARIABLE):
            if self.rank == 0:
                print(summary.STALE, flush=True)
            return DelayedOptimizer(optimizer, self, zero_fill)
        # Each one has its own gradients, and so its own layout, buffers and compression errors.
        exchanger = self.another() if self._is_taken else self.exchanger
        self._is_taken = True
        return OverlappingOptimizer(optimizer, self, zero_fill, exchanger)

    @contextmanager
    def exchanging_by(self, exchanger: Exchanger) -> Iterator[None]:
        """Use another exchanger for as long as the context lasts."""
        before, self.exchanger = self.exchanger, exchanger
        try:
            yield
        finally:
            self.exchanger = before

    def land(self, optimizer: DelayedOptimizer) -> None:
        """Wait for the pending exchange of a delayed optimizer."""
        if not optimizer.flying:
            return
        if counts := get_ident() == _MAIN:
            watch.enter(CALL)
        try:
            self.reducer.transport.rest()
            if counts:
                self._count(optimizer.exchanger, delayed=True)
        finally:
            if counts:
                watch.leave()
        if time.perf_counter() > self._due:
            self._report(optimizer.exchanger)

    def _device(self) -> DeviceExchange:
        algorithm, compress, _, _ = self._options
        return DeviceExchange(self.mpi_comm, compress, may_nccl=algorithm is None)

    def another(self) -> Exchanger:
        """Return an exchanger for other gradients over the same ranks."""
        _, compress, rank, _ = self._options
        return Exchanger(
            self.reducer, compress, rank, overlaps=self.overlaps, on_plan=self._on_plan
        )

    def _on_plan(self, plan: BucketLayout) -> None:
        squeezed = summary.find_compressed(plan)
        found = (
            run_trial(self.reducer, self.codec, squeezed, self._options[2]) if squeezed else None
        )
        text = (
            summary.sentence(self, summary.describe_gradients(plan), found)
            if self.rank == 0
            else ""
        )
        if text and text != self._printed:
            self._printed = text
            print(text, flush=True)

    def _count(self, exchanger: Exchanger, *, delayed: bool = False) -> None:
        """Count an exchange, for which the main thread waited."""
        tally, plan = exchanger.tally, exchanger.plan
        watch.exchanged(plan.nbytes if plan else 0, tally.nbytes, tally.seconds)
        # Each training has details of its own.
        if watch.details is not self._described or exchanger is not self._describing:
            self._described, self._describing = watch.details, exchanger
            report_kind(exchanger.codec, overlaps=exchanger.overlaps, delayed=delayed)

    def _report(self, exchanger: Exchanger) -> None:
        self._due = time.perf_counter() + REPORT_SECONDS
        report_tally(exchanger.tally)


class DeviceExchange:
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

    def copy_to_host(self, gradient: Any) -> Any:
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
