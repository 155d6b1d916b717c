"""Horovod's distributed optimizer: gradients are averaged by our exchange before each step."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from mpi4py import MPI

from workbench.core.performance.exchange_model import Codec
from workbench.engine.exchange.bucket_exchange import BucketExchange, HostBucket
from workbench.engine.exchange.exchange_options import ExchangeOptions, exchange_options
from workbench.errors import InputError
from workbench.frameworks.horovod.collectives import Average, Compression, Sum, choose_op, host
from workbench.frameworks.horovod.world import HorovodWorld, world

_PLAIN = ExchangeOptions(None, Codec.NONE, False, "")


class _Exchange:
    """The exchange of one optimizer's gradients; its creation is collective."""

    def __init__(
        self,
        here: HorovodWorld,
        named: list[tuple[str, Any]],
        compression: Any,
        sums: bool,
        densely: bool,
    ) -> None:
        self._here, self._named, self._compression = here, named, compression
        self._sums, self._densely = sums, densely
        self._exchange = BucketExchange(MPI.COMM_WORLD, exchange_options() or _PLAIN)
        self._kind = f"gradients {len(here.shadows)}"
        here.shadows[self._kind] = self.take_part

    def average(self) -> None:
        """Replace all gradients by their means, or sums; collective."""
        if self._here.size == 1:
            return
        trained = [(name, p) for name, p in self._named if p.requires_grad]
        packed = [self._compression.compress(self._take_gradient(name, p)) for name, p in trained]
        self._here.turn(self._kind)
        self._exchange_values(
            [(name, value) for (name, _), (value, _) in zip(trained, packed, strict=True)]
        )
        for (_, p), (value, context) in zip(trained, packed, strict=True):
            p.grad.copy_(self._compression.decompress(value, context))

    def take_part(self) -> None:
        """Exchange zeros, where this rank has joined."""
        trained = [(name, p) for name, p in self._named if p.requires_grad]
        zeros = [(n, self._compression.compress(torch.zeros_like(p))[0]) for n, p in trained]
        self._exchange_values(zeros)

    def _take_gradient(self, name: str, parameter: Any) -> Any:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        if parameter.grad.is_sparse:
            if not self._densely:
                raise InputError(
                    f"The gradient of {name} is sparse, which is not averaged here",
                    "pass sparse_as_dense=True to hvd.DistributedOptimizer.",
                )
            parameter.grad = parameter.grad.to_dense()
        return parameter.grad

    def _exchange_values(self, values: list[tuple[str, Any]]) -> None:
        """Replace values by their means, those of one type in one bucket."""
        arrays = [host(value.reshape(-1)) for _, value in values]
        kinds = sorted({array.dtype.str for array in arrays})
        for number, kind in enumerate(kinds):
            mine = [n for n, array in enumerate(arrays) if array.dtype.str == kind]
            flat = torch.cat([torch.from_numpy(arrays[n]) for n in mine]).numpy()
            names = [values[n][0] for n in mine]
            bucket = HostBucket(names, [tuple(values[n][1].shape) for n in mine], flat)
            self._exchange.take(bucket, is_first=number == 0, is_last=number == len(kinds) - 1)
            factor = self._here.size if self._sums else 1
            for n, part in zip(mine, bucket.parts, strict=True):
                values[n][1].copy_(torch.from_numpy(part * factor if factor > 1 else part))


class _Distributed:
    """What is added to an optimizer's class."""

    _exchange: _Exchange
    _synchronized = False
    _synchronizes = True
    _own: Any

    def synchronize(self) -> None:
        """Average the gradients now, such as to clip them before the step."""
        self._exchange.average()
        self._synchronized = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Step without an exchange for as long as the context lasts."""
        self._synchronizes = False
        try:
            yield
        finally:
            self._synchronizes = True

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Accept Horovod's number of passes, which each step here follows by itself."""

    def step(self, closure: Any = None) -> Any:
        """Average the gradients, and apply them."""
        if self._synchronizes:
            if self._synchronized:
                warnings.warn(
                    "optimizer.step() exchanges again after optimizer.synchronize(); put it into "
                    "optimizer.skip_synchronize().",
                    stacklevel=2,
                )
            self.synchronize()
        self._synchronized = False
        return self._own.step(self, closure)

    # Else PyTorch puts its hooks around this one too, where a state is loaded: two steps in one.
    vars(step)["hooked"] = True


def DistributedOptimizer(  # noqa: N802  # Horovod's own name
    optimizer: Any,
    named_parameters: Iterable[tuple[str, Any]] | None = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: Any = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    sparse_as_dense: bool = False,
    process_set: Any = None,
) -> Any:
    """Return the optimizer, which now averages gradients before each step; collective.

    It shares its state with ``optimizer``. Gradients of several backward passes add up until
    the step, as with Horovod. How buckets are formed (``num_groups``, ``groups``) has no effect.

    Raises:
        InputError: The operation is neither ``Average`` nor ``Sum``.
        ValueError: Names of parameters are missing, or occur twice.
    """
    del backward_passes_per_step, num_groups, groups, process_set
    op = choose_op(op)
    if op not in (Average, Sum):
        raise InputError(f"Gradients are averaged or summed, not {op.name}", "use hvd.Average.")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor is for op=hvd.Average alone")
    own = type(optimizer)
    made: Any = object.__new__(type(own.__name__, (_Distributed, own), {"_own": own}))
    vars(made).update(vars(optimizer))
    shared = ("state", "param_groups", "defaults")
    assert all(vars(made)[name] is vars(optimizer)[name] for name in shared)
    named = _name_parameters(optimizer, named_parameters)
    made._exchange = _Exchange(world(), named, compression, op == Sum, sparse_as_dense)
    return made


def _name_parameters(optimizer: Any, given: Any) -> list[tuple[str, Any]]:
    """Return the optimizer's parameters with their names, in the order of its groups."""
    everything = [p for group in optimizer.param_groups for p in group["params"]]
    if given is None:
        return [(f"parameter {n}", p) for n, p in enumerate(everything)]
    given = [*given]
    if not all(isinstance(one, tuple) for one in given):
        raise ValueError("named_parameters takes pairs, such as of model.named_parameters()")
    twice = [name for name, count in Counter(name for name, _ in given).items() if count > 1]
    if twice:
        raise ValueError(f"named_parameters has names twice: {', '.join(twice)}")
    names = {id(p): name for name, p in given}
    if any(id(p) not in names for p in everything):
        raise ValueError("named_parameters lacks parameters of the optimizer")
    return [(names[id(p)], p) for p in everything]
