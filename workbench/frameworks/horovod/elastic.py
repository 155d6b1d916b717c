"""Horovod's elastic calls, done by ``workbench.elastic``: ``run``, states and the sampler.

A commit is the end of a step, where the run can be saved and move to other ranks. Where Horovod
calls the function again after a loss, here the run begins again, on new ranks.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any

import torch

from workbench.engine.elastic.loop import elastic
from workbench.frameworks.horovod.collectives import (
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from workbench.frameworks.horovod.world import rank, size

_OWN = ("_values", "_callbacks", "_loop")


class ObjectState:
    """Values that a training continues with, as attributes."""

    def __init__(self, **values: Any) -> None:
        given: MutableMapping[str, Any] = {k: v for k, v in values.items() if v is not None}
        vars(self).update(_values=given, _callbacks=[], _loop=None)

    def __getattr__(self, name: str) -> Any:
        if name in _OWN or name not in self._values:
            raise AttributeError(name)
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            object.__setattr__(self, name, value)
        else:
            self._values[name] = value

    def register_reset_callbacks(self, callbacks: Sequence[Callable[[], object]]) -> None:
        """Have functions called where the training continues on another number of ranks."""
        self._callbacks.extend(callbacks)

    def commit(self) -> None:
        """End a step: the run may be saved here, stop here, or move to other ranks."""
        if self._loop is not None:
            self._loop.commit()

    def check_host_updates(self) -> None:
        """Do nothing: other ranks are taken at a commit."""

    def save(self) -> None:
        """Do nothing: what is saved is what a commit finds."""

    def restore(self) -> None:
        """Do nothing: a failed run begins again from its snapshot."""

    def sync(self) -> None:
        """Give all ranks rank 0's values."""
        for name, value in sorted(self._values.items()):
            if isinstance(value, torch.nn.Module):
                broadcast_parameters(value.state_dict(), 0)
            elif isinstance(value, torch.optim.Optimizer):
                broadcast_optimizer_state(value, 0)
            elif hasattr(value, "load_state_dict"):
                value.load_state_dict(broadcast_object(value.state_dict()))
            else:
                self._values[name] = broadcast_object(value)


class TorchState(ObjectState):
    """A model, an optimizer and further values that a training continues with."""

    def __init__(self, model: Any = None, optimizer: Any = None, **values: Any) -> None:
        super().__init__(model=model, optimizer=optimizer, **values)


State = ObjectState


def run(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a training function whose first argument is a state that can be continued."""

    @functools.wraps(function)
    def train(state: ObjectState, *args: Any, **kwargs: Any) -> Any:
        state.sync()
        loop = elastic(state._values)
        loop.register_reset_callbacks(state._callbacks)
        loop.restore()
        state._loop = loop
        try:
            result = function(state, *args, **kwargs)
        finally:
            state._loop = None
        loop.finish()
        return result

    return train


class ElasticSampler(torch.utils.data.Sampler):
    """Divides the examples of an epoch that were not trained on among the ranks.

    All ranks take equal batches, so the number of examples that are done says which they are.
    """

    def __init__(self, dataset: Any, shuffle: bool = True, seed: int = 0) -> None:
        self._examples, self._shuffles, self._seed = len(dataset), shuffle, seed
        self.epoch = self.processed_num = 0
        self._begun_with = 0
        self._left: list[int] = []
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch, whose order follows from the seed and its number."""
        if epoch != self.epoch:
            self.epoch, self.processed_num = epoch, 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Note that all ranks have trained on a batch of this pass, numbered from 0."""
        done = self._begun_with + (batch_idx + 1) * batch_size * size()
        self.processed_num = min(self._examples, done)

    def reset(self) -> None:
        """Divide again what is left of the epoch."""
        draw = torch.Generator().manual_seed(self._seed + self.epoch)
        order = torch.randperm(self._examples, generator=draw) if self._shuffles else None
        everything = order.tolist() if order is not None else [*range(self._examples)]
        self._begun_with = self.processed_num
        left = everything[self.processed_num :]
        padded = math.ceil(len(left) / size()) * size()
        self._left = (left * (padded // max(1, len(left)) + 1))[:padded]

    def state_dict(self) -> dict[str, int]:
        """Return the place in the epoch, the same on all ranks."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue at a place, on any number of ranks."""
        self.epoch, self.processed_num = state["epoch"], state["processed_num"]
        self.reset()

    def __iter__(self) -> Iterator[int]:
        return iter(self._left[rank() :: size()])

    def __len__(self) -> int:
        return len(self._left) // size()
