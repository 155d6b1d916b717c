"""Horovod's collective calls on PyTorch's tensors, by MPI in host memory.

A call that Horovod completes later is complete when it returns, and its handle is the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy
import torch
from mpi4py import MPI

from workbench.errors import InputError
from workbench.frameworks.horovod.world import HorovodWorld, world


class ReduceOp(IntEnum):
    """How values of the ranks become one."""

    Average = 0
    Sum = 1
    Adasum = 2
    Min = 3
    Max = 4
    Product = 5


Average, Sum, Adasum = ReduceOp.Average, ReduceOp.Sum, ReduceOp.Adasum
Min, Max, Product = ReduceOp.Min, ReduceOp.Max, ReduceOp.Product
_MPI = {Average: MPI.SUM, Sum: MPI.SUM, Min: MPI.MIN, Max: MPI.MAX, Product: MPI.PROD}


def choose_op(op: Any, average: Any = None) -> ReduceOp:
    """Return the operation that a call asks for, by its present or its former argument.

    Raises:
        InputError: It is Adasum.
    """
    if op is not None and average is not None:
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")
    if op is None:
        return Sum if average is False else Average
    if op == Adasum:
        raise InputError(
            "Adasum is not supported by workbench's Horovod shim",
            "use hvd.Average, or install Horovod.",
        )
    return ReduceOp(op)


class _Half:
    """Sends floats as half precision."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Return the tensor in half precision, and its own type."""
        wide = tensor.dtype if tensor.is_floating_point() else None
        return (tensor if wide is None else tensor.half()), wide

    @staticmethod
    def decompress(tensor: Any, context: Any) -> Any:
        """Return the tensor in its own type."""
        return tensor if context is None else tensor.to(context)


class _Whole:
    """Sends values as they are."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Return the tensor."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, context: Any) -> Any:
        """Return the tensor."""
        return tensor


class Compression:
    """How Horovod compresses gradients."""

    none = _Whole
    fp16 = _Half


def host(tensor: Any) -> Any:
    """Return a tensor's values as an array that MPI can add: halves in single precision."""
    values = tensor.detach().cpu()
    is_narrow = values.is_floating_point() and values.dtype not in (torch.float32, torch.float64)
    return (values.float() if is_narrow else values).contiguous().numpy()


def reduce_tensor(here: HorovodWorld, tensor: Any, op: ReduceOp, factor: float = 1.0) -> Any:
    """Return a tensor's reduction over the ranks."""
    mine = host(tensor)
    here.turn("reduce", mine.shape, mine.dtype.str, op)
    return _like(tensor, _reduce(here, mine, op), factor)


def _reduce(here: HorovodWorld, mine: Any, op: ReduceOp) -> Any:
    found = numpy.empty_like(mine)
    here.comm.Allreduce(mine, found, _MPI[op])
    if op != Average:
        return found
    return (found / here.size).astype(found.dtype)


def _like(tensor: Any, array: Any, factor: float = 1.0) -> Any:
    values = torch.from_numpy(numpy.asarray(array))
    if factor != 1.0:
        values = values * factor
    return values.to(tensor.device, tensor.dtype).reshape(tensor.shape)


class _Allreduce(torch.autograd.Function):
    """An allreduce through which gradients go back."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, op: ReduceOp, factor: float) -> Any:
        ctx.op, ctx.factor = op, factor
        return reduce_tensor(world(), tensor, op, factor)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return reduce_tensor(world(), gradients[0], ctx.op, ctx.factor), None, None


def allreduce(
    tensor: Any,
    average: Any = None,
    name: Any = None,
    compression: Any = Compression.none,
    op: Any = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = None,
) -> Any:
    """Return the tensor's reduction over all ranks; by default its mean."""
    del name, process_set
    small, context = compression.compress(tensor)
    factor = prescale_factor * postscale_factor
    result = _Allreduce.apply(small, choose_op(op, average), factor)
    return compression.decompress(result, context)


def allreduce_(
    tensor: Any, average: Any = None, name: Any = None, op: Any = None, **more: Any
) -> Any:
    """Replace the tensor by its reduction over all ranks."""
    factor = more.get("prescale_factor", 1.0) * more.get("postscale_factor", 1.0)
    with torch.no_grad():
        return tensor.copy_(reduce_tensor(world(), tensor, choose_op(op, average), factor))


def grouped_allreduce(tensors: Sequence[Any], *args: Any, **kwargs: Any) -> list[Any]:
    """Return the reduction of each tensor."""
    return [allreduce(one, *args, **kwargs) for one in tensors]


def grouped_allreduce_(tensors: Sequence[Any], *args: Any, **kwargs: Any) -> list[Any]:
    """Replace each tensor by its reduction."""
    return [allreduce_(one, *args, **kwargs) for one in tensors]


def allgather(tensor: Any, name: Any = None, process_set: Any = None) -> Any:
    """Return all ranks' tensors one after another; they may differ in their first dimension."""
    _check_detached(tensor, "allgather")
    here = world()
    here.turn("gather")
    return _gather(here, tensor)


def _gather(here: HorovodWorld, tensor: Any) -> Any:
    mine = None if tensor is None else (tuple(tensor.shape), _bytes(tensor))
    parts = [one for one in here.comm.allgather(mine) if one is not None]
    if tensor is None:
        return None
    each = [torch.from_numpy(data).view(tensor.dtype).reshape(shape) for shape, data in parts]
    return torch.cat([one.reshape(1) if one.dim() == 0 else one for one in each]).to(tensor.device)


def grouped_allgather(tensors: Sequence[Any], name: Any = None, process_set: Any = None) -> Any:
    """Return all ranks' tensors one after another, for each of several."""
    return [allgather(one) for one in tensors]


def broadcast(tensor: Any, root_rank: int, name: Any = None, process_set: Any = None) -> Any:
    """Return rank ``root_rank``'s tensor."""
    _check_detached(tensor, "broadcast")
    return broadcast_(tensor.clone(), root_rank)


def broadcast_(tensor: Any, root_rank: int, name: Any = None, process_set: Any = None) -> Any:
    """Replace the tensor by rank ``root_rank``'s."""
    here = world()
    data = _bytes(tensor)
    here.turn("broadcast", len(data), root_rank)
    here.comm.Bcast(data, root_rank)
    with torch.no_grad():
        return tensor.copy_(torch.from_numpy(data).view(tensor.dtype).reshape(tensor.shape))


def alltoall(tensor: Any, splits: Any = None, name: Any = None, process_set: Any = None) -> Any:
    """Return what all ranks send to this one: a part of the first dimension from each."""
    _check_detached(tensor, "alltoall")
    here = world()
    lengths = [len(tensor) // here.size] * here.size if splits is None else [*map(int, splits)]
    parts = tensor.detach().cpu().split(lengths)
    came = here.comm.alltoall([*parts])
    result = torch.cat(came).to(tensor.device)
    if splits is None:
        return result
    return result, torch.tensor([len(one) for one in came], dtype=torch.int32)


def barrier(process_set: Any = None) -> None:
    """Wait for all ranks."""
    here = world()
    here.turn("barrier")
    here.comm.Barrier()


def join(device: int = -1) -> int:
    """Take part in the others' calls with zeros until all ranks call this; return the last."""
    here = world()

    def reduce(shape: Any, kind: str, op: ReduceOp) -> None:
        _reduce(here, numpy.zeros(shape, kind), op)

    here.shadows |= {
        "reduce": reduce,
        "gather": lambda: _gather(here, None),
        "broadcast": lambda nbytes, root: here.comm.Bcast(numpy.empty(nbytes, "u1"), root),
        "barrier": here.comm.Barrier,
        "object": lambda root: here.comm.bcast(None, root),
        "objects": lambda: here.comm.allgather(None),
    }
    return here.join()


def synchronize(handle: Any) -> Any:
    """Return the result of a call whose name ends in ``async``."""
    return handle


def poll(handle: Any) -> bool:
    """Return whether such a call is complete."""
    return True


def _bytes(tensor: Any) -> Any:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().copy()


def _check_detached(tensor: Any, call: str) -> None:
    if tensor.requires_grad and torch.is_grad_enabled():
        raise InputError(
            f"hvd.{call} does not send gradients back here",
            "pass tensor.detach(), or install Horovod.",
        )


def broadcast_parameters(params: Any, root_rank: int, process_set: Any = None) -> None:
    """Replace parameters by those of a rank.

    Args:
        params: ``model.state_dict()``, ``model.named_parameters()`` or ``model.parameters()``.
    """
    del process_set
    if isinstance(params, dict):
        params = sorted(params.items())
    for one in [*params]:
        tensor = one[1] if isinstance(one, tuple) else one
        if isinstance(tensor, torch.Tensor):
            broadcast_(tensor.data, root_rank)


def broadcast_optimizer_state(
    optimizer: Any, root_rank: int, model: Any = None, process_set: Any = None
) -> None:
    """Replace an optimizer's state by that of a rank; tensors go to where its parameters are."""
    del model, process_set
    state = broadcast_object(optimizer.state_dict(), root_rank)
    if world().rank != root_rank:
        optimizer.load_state_dict(state)


def broadcast_object(
    obj: Any, root_rank: int = 0, name: Any = None, process_set: Any = None
) -> Any:
    """Return rank ``root_rank``'s object."""
    here = world()
    here.turn("object", root_rank)
    return here.comm.bcast(_on_host(obj) if here.rank == root_rank else None, root_rank)


def allgather_object(obj: Any, name: Any = None, process_set: Any = None) -> list[Any]:
    """Return the objects of all ranks, by rank."""
    here = world()
    here.turn("objects")
    return [*here.comm.allgather(_on_host(obj))]


def _on_host(value: Any) -> Any:
    """Return a copy whose tensors any rank can hold."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return type(value)((key, _on_host(one)) for key, one in value.items())
    if type(value) in (list, tuple):
        return type(value)(_on_host(one) for one in value)
    return value
