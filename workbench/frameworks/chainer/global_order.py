"""Let Chainer's iterators give each rank its share of batches of all ranks, in a common order.

On every rank the iterator's state is that of all ranks: their position in an order of the whole
data. So epochs end at the same iteration everywhere, however the shares differ.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy
from chainer.iterators import _statemachine
from chainer.iterators._statemachine import IteratorState

from workbench.core.run.batch import epoch_order, share, weight

Indices = Any
"""A flat NumPy array of whole numbers."""


class GlobalOrder:
    """The order sampler of an iterator that gives a rank its share of each batch.

    Args:
        examples: The numbers of all examples of an epoch in the whole data.
        total: Examples of a batch of all ranks.
        rank: This rank, of ``ranks``.
        seed: Of the order of epochs; None for the order of ``examples``.
        first: The number that the iterator's data set has for the first example of the whole.
    """

    def __init__(
        self,
        examples: Indices,
        total: int,
        rank: int,
        ranks: int,
        *,
        seed: int | None,
        first: int,
    ) -> None:
        self.examples, self.total, self.rank, self.ranks = examples, total, rank, ranks
        self.seed, self.first = seed, first

    def __call__(self, order: Any, position: int) -> Indices:
        """Return the order of the first epoch, as an iterator asks for that is reset."""
        return self.order(0)

    def order(self, epoch: int) -> Indices:
        """Return the numbers of all examples in the order of an epoch, which counts from 0."""
        if self.seed is None:
            return self.examples
        return self.examples[epoch_order(len(self.examples), self.seed, epoch)]

    def step(self, state: IteratorState, *, repeats: bool) -> tuple[IteratorState, Any]:
        """Return the state after a batch, and the numbers of this rank's share; None at the end."""
        position, epoch, _, order = state
        if epoch > 0 and not repeats:
            return state, None
        batch, is_new = [], False
        end = position + self.total
        while end >= len(order):
            batch.append(order[position:])
            end, position, epoch, is_new = end - len(order), 0, epoch + 1, True
            order = self.order(epoch)
            if not repeats:
                end = 0
                break
        batch.append(order[position:end])
        own, _ = share(numpy.concatenate(batch), self.rank, self.ranks)
        return IteratorState(end, epoch, is_new, order), own + self.first

    def weight(self, iterator: Any) -> float:
        """Return the weight of this rank's share of the batch that the iterator gave last."""
        done = iterator.epoch_detail - iterator._previous_epoch_detail
        batch = round(done * len(self.examples))
        return weight(batch, self.rank, self.ranks) if batch > 0 else 1.0

    @property
    def is_even(self) -> bool:
        """Whether all ranks have shares of the same length."""
        return self.total % self.ranks == 0


def follow_global_orders() -> None:
    """Let all iterators of Chainer whose sampler is a ``GlobalOrder`` take its steps."""
    original = _statemachine.iterator_statemachine
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def step(state: Any, batch_size: int, repeat: bool, order_sampler: Any, length: int) -> Any:
        if isinstance(order_sampler, GlobalOrder):
            return order_sampler.step(state, repeats=repeat)
        return original(state, batch_size, repeat, order_sampler, length)

    vars(_statemachine)["iterator_statemachine"] = step


@contextmanager
def weight_gradients(updater: Any, iterators: dict[str, Any]) -> Iterator[None]:
    """Weight this rank's gradients by its share of the batch, for as long as the context lasts.

    They are weighted before they are exchanged, so the mean over the ranks is that of the batch.
    What acts on the mean (hooks of the optimizer, such as clipping) and the loss that is reported
    are not changed.
    """
    found = [one for one in iterators.values() if isinstance(one.order_sampler, GlobalOrder)]
    main: Any = iterators.get("main")
    main = main if main in found else next(iter(found), None)
    patched: dict[int, Any] = {}
    order = main.order_sampler if main is not None else None
    if order is not None and order.ranks > 1 and not (order.is_even and main.repeat):
        # One that has two names is weighted once.
        patched = {id(one): one for one in updater.get_all_optimizers().values()}
    for optimizer in patched.values():
        object.__setattr__(optimizer, "update", _weight_update(optimizer, main))
    try:
        yield
    finally:
        for optimizer in patched.values():
            object.__delattr__(optimizer, "update")


def _weight_update(optimizer: Any, iterator: Any) -> Any:
    """Return an optimizer's ``update``, with gradients that are weighted before it."""
    original = optimizer.update

    @functools.wraps(original)
    def update(lossfun: Any = None, *args: Any, **kwds: Any) -> Any:
        def loss(*inputs: Any, **named: Any) -> Any:
            # As large as the loss that is reported, but for its gradient.
            value = lossfun(*inputs, **named)
            return value * iterator.order_sampler.weight(iterator)

        if lossfun is not None:
            return original(loss, *args, **kwds)
        share = iterator.order_sampler.weight(iterator)
        for parameter in optimizer.target.params():
            if parameter.grad is not None:
                # Not in place: two parameters may have the same array.
                parameter.grad = parameter.grad * parameter.grad.dtype.type(share)
        return original(None, *args, **kwds)

    return update
