"""Multi-node optimizers that exchange during the backward pass, or during the whole next step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
from chainermn.optimizers import _MultiNodeOptimizer

from workbench.engine.exchange.exchanger import Exchanger
from workbench.engine.exchange.transport import Array
from workbench.frameworks.chainer.backward import report_gradients


class OverlappingOptimizer(_MultiNodeOptimizer):
    """ChainerMN's multi-node optimizer, which sends gradients as they become complete."""

    def __init__(
        self, actual_optimizer: Any, communicator: Any, zero_fill: bool, exchanger: Exchanger
    ) -> None:
        super().__init__(actual_optimizer, communicator, zero_fill)
        object.__setattr__(self, "exchanger", exchanger)

    def update(self, lossfun: Any = None, *args: Any, **kwds: Any) -> None:
        """Compute gradients, average and apply them."""
        comm, actual = self.communicator, self.actual_optimizer
        comm.forgiving = bool(actual._loss_scaling_is_dynamic)
        if lossfun is not None and comm.overlaps:
            loss = _with_cleared(self, lossfun, args, kwds)
            parameters = [p for _, p in sorted(self.target.namedparams()) if p.data is not None]
            self.exchanger.begin()
            with report_gradients(loss, parameters, _on_host(self.exchanger)):
                loss.backward(loss_scale=actual._loss_scale)
            del loss
            lossfun = None
        with comm.exchanging_by(self.exchanger):
            super().update(lossfun, *args, **kwds)


class DelayedOptimizer(_MultiNodeOptimizer):
    """Applies the mean gradient of the previous step, while this step's is exchanged.

    The gradient is one step stale, as with ChainerMN's double buffering; the first step updates
    nothing.
    """

    def __init__(self, actual_optimizer: Any, communicator: Any, zero_fill: bool) -> None:
        super().__init__(actual_optimizer, communicator, zero_fill)
        exchanger = communicator.another()
        exchanger.overlaps = False
        own = {"exchanger": exchanger, "means": None, "flying": False}
        for name, value in own.items():
            object.__setattr__(self, name, value)

    def update(self, lossfun: Any = None, *args: Any, **kwds: Any) -> None:
        """Compute gradients, start their exchange, and apply those of the previous one."""
        actual, target = self.actual_optimizer, self.target
        if lossfun is not None:
            _with_cleared(self, lossfun, args, kwds).backward(loss_scale=actual._loss_scale)
        self.communicator.land(self)
        changed, means = self.is_changed(target), self.means
        object.__setattr__(self, "means", None)
        if changed:
            self.communicator.bcast_data(target)
            return
        parameters = [(n, p) for n, p in sorted(target.namedparams()) if p.data is not None]
        self._send_off(parameters)
        if means is not None:
            for (_, parameter), mean in zip(parameters, means, strict=True):
                parameter.grad = self.communicator.device.like(parameter, mean)
            actual.update(None, *args, **kwds)

    def held_back(self) -> list[Array | None] | None:
        """Return the mean gradients that the next step applies; None if there are none yet."""
        self.communicator.land(self)
        means: list[Array | None] | None = self.means
        return means

    def hold_back(self, means: list[Array | None] | None) -> None:
        """Continue with the mean gradients of an earlier run."""
        object.__setattr__(self, "means", means)

    def _send_off(self, parameters: list[tuple[str, Any]]) -> None:
        if self.zero_fill:
            for _, parameter in parameters:
                if parameter.grad is None:
                    parameter.grad = parameter.xp.zeros_like(parameter.data)
        names = [name for name, _ in parameters]
        shapes = [parameter.data.shape for _, parameter in parameters]
        device = self.communicator.device
        gradients = [device.copy_to_host(parameter.grad) for _, parameter in parameters]
        forgiving = bool(self.actual_optimizer._loss_scaling_is_dynamic)

        def fly() -> None:
            news = dict(self.exchanger.mean(names, gradients, shapes, forgiving=forgiving))
            # The buffers are written again while these are still in use.
            means = [news[n].copy() if n in news else g for n, g in enumerate(gradients)]
            object.__setattr__(self, "means", means)

        object.__setattr__(self, "flying", True)
        transport = self.communicator.reducer.transport
        if transport.may_thread:
            transport.worker.submit(fly)
        else:
            fly()


def _with_cleared(optimizer: Any, lossfun: Any, args: Any, kwds: Any) -> Any:
    """Return the loss, with the gradients cleared as Chainer does it."""
    loss = lossfun(*args, **kwds)
    if getattr(optimizer, "_use_cleargrads", True):
        optimizer.target.cleargrads()
    else:
        optimizer.target.zerograds()
    return loss


def _on_host(exchanger: Exchanger) -> Callable[[int, Array], None]:
    def ready(number: int, gradient: Array) -> None:
        if isinstance(gradient, numpy.ndarray):
            exchanger.ready(number, gradient)

    return ready
