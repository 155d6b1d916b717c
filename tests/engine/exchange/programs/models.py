"""What ChainerMN documents of a model's gradients and data, asked of ours for mixed types."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import chainer
import chainer.links as links
import numpy as np

from tests.engine.exchange.programs.collectives import refuses
from workbench.errors import InputError
from workbench.frameworks.chainer.create import create_communicator

TYPES = ("f2", "f4", "f8")
Found = Iterator[tuple[str, bool]]


class Mixed(chainer.Chain):
    """A layer of each type, a number, an empty array, and a layer that is not initialised."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            for dtype in TYPES:
                with chainer.using_config("dtype", np.dtype(dtype)):
                    setattr(self, f"layer_{dtype}", links.Linear(4, 3))
            self.scale = chainer.Parameter(np.array(1, "f4"))
            self.empty = chainer.Parameter(np.zeros((0, 3), "f4"))
            self.late = links.Linear(None, 2, nobias=True)
            self.unused = links.Linear(2, 2)
        self.cleargrads()

    def fill(self, value: float) -> None:
        """Give everything but the unused a gradient."""
        for name, parameter in self.namedparams():
            if parameter.array is not None and not name.startswith("/unused"):
                parameter.grad = np.full_like(parameter.array, value)

    def filled(self) -> dict[str, Any]:
        return {
            name: parameter
            for name, parameter in self.namedparams()
            if parameter.array is not None and parameter.grad is not None
        }


def held(mpi_comm: Any) -> dict[str, bool]:
    """Return which sentence of the documentation holds on this rank."""
    found = {}
    for asked in (None, "f2", "f4", "f8"):
        dtype = asked and np.dtype(asked)
        comm = create_communicator("pure_nccl", mpi_comm, allreduce_grad_dtype=dtype)
        for check in (means, leaves_unused, fills_with_zeros, old_name):
            for what, holds in check(comm):
                found[f"{check.__name__} as {asked}: {what}"] = bool(holds)
    comm = create_communicator("naive", mpi_comm)
    for what, holds in data(comm):
        found[f"data: {what}"] = bool(holds)
    return found


def means(comm: Any) -> Found:
    """Each gradient is the mean, in its own type and shape, step after step."""
    model = Mixed()
    for step in range(3):
        model.fill(comm.rank + step)
        comm.multi_node_mean_grad(model)
        wanted = (comm.size - 1) / 2 + step
        for name, parameter in model.filled().items():
            gradient = parameter.grad
            kept = (gradient.dtype, gradient.shape) == (parameter.dtype, parameter.shape)
            yield f"{name} {step}", kept and np.allclose(gradient, wanted, rtol=1e-3, atol=1e-3)
    yield "the layer without a shape", model.late.W.array is None


def leaves_unused(comm: Any) -> Found:
    """What has no gradient on any rank has none afterwards."""
    model = Mixed()
    model.fill(comm.rank)
    comm.multi_node_mean_grad(model)
    yield "none", model.unused.W.grad is None and model.unused.b.grad is None


def fills_with_zeros(comm: Any) -> Found:
    """What has a gradient on some ranks counts as zero on the others, if that is asked."""
    model = Mixed()
    model.fill(1)
    if comm.rank == 0:
        model.unused.W.grad = np.full_like(model.unused.W.array, 6)
    comm.multi_node_mean_grad(model, zero_fill=True)
    yield "some", np.allclose(model.unused.W.grad, 6 / comm.size, rtol=1e-3)
    yield "no rank's", same_zeros(model.unused.b.grad)


def old_name(comm: Any) -> Found:
    """The name of ChainerMN 6 warns, and does the same."""
    model = Mixed()
    model.fill(comm.rank)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        comm.allreduce_grad(model)
    yield "warns", any(one.category is DeprecationWarning for one in said)
    yield "mean", np.allclose(model.layer_f4.W.grad, (comm.size - 1) / 2, rtol=1e-3, atol=1e-3)


def data(comm: Any) -> Found:
    """Every rank has the parameters of rank 0 afterwards, in their own types."""
    for name in ("bcast_data", "broadcast_data"):
        model = Mixed()
        before = {path: p.array.dtype for path, p in model.namedparams() if p.array is not None}
        for parameter in model.params():
            if parameter.array is not None:
                parameter.array[...] = comm.rank + 7
        getattr(comm, name)(model)
        for path, dtype in before.items():
            array = dict(model.namedparams())[path].array
            yield f"{name} {path}", array.dtype == dtype and bool(np.all(array == 7))
        yield f"{name} without a shape", model.late.W.array is None
    yield (
        "a type of no float",
        refuses(
            InputError,
            partial(create_communicator, "pure_nccl", comm.mpi_comm, allreduce_grad_dtype="i4"),
        ),
    )


def same_zeros(array: Any) -> bool:
    return array is not None and not array.any()
