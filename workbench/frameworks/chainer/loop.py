"""Have Chainer's hand-written loops report losses, values and step times, and stop at boundaries.

A loop without a ``Trainer`` is watched at ``Variable.backward``, optimizers' ``update``, iterators
and ``chainer.report``. What a ``Trainer`` does is left to its own hook, which has these functions
put back meanwhile.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from workbench.engine.run_context import RunContext
from workbench.engine.training_loop import Pass, now
from workbench.engine.watched_loop import LoopWatch, WatchedLoop, name_of

PASS = "_workbench_pass"
_ITERATORS = ("SerialIterator", "MultiprocessIterator", "MultithreadIterator")


def wrap_chainer(chainer: Any) -> None:
    """Watch Chainer's hand-written loops."""
    hooks = _hooks
    if hooks.chainer is chainer:
        return
    hooks.chainer = chainer
    hooks.put((chainer.Variable,), ("backward",), hooks.backward)
    for kind in (chainer.Optimizer, chainer.GradientMethod):
        hooks.put((kind,), ("update",), hooks.update)
    for name in ("cleargrads", "zerograds"):
        hooks.put((chainer.Link,), (name,), hooks.wrap_clear)
    for name in _ITERATORS:
        hooks.put((getattr(chainer.iterators, name),), ("__next__", "next"), hooks.wrap_next)
    hooks.put((chainer.reporter, chainer), ("report",), hooks.wrap_report)


def wrap_multi_node(module: Any) -> None:
    """Watch the steps of ChainerMN's optimizers."""
    for kind in (module._MultiNodeOptimizer, module._DoubleBufferingOptimizer):
        if hasattr(kind.update, "__wrapped__"):
            return
        _hooks.put((kind,), ("update",), _hooks.update)


@contextlib.contextmanager
def pause_chainer_hooks() -> Iterator[None]:
    """Put Chainer's own functions back for a while: a trainer's steps pay nothing for the hooks."""
    replaced = [one for one in _hooks.placed if getattr(one[0], one[1]) is one[3]]
    for owner, name, original, _ in replaced:
        setattr(owner, name, original)
    try:
        yield
    finally:
        for owner, name, original, hook in replaced:
            if getattr(owner, name) is original:
                setattr(owner, name, hook)


class _ChainerLoop(WatchedLoop):
    """The loop of one run, and what it has reported since the last step."""

    def __init__(self, run: RunContext) -> None:
        super().__init__(run, _numbers)
        self.values: dict[str, Any] = {}
        self.is_updating = False

    def taken(self) -> Mapping[str, Any]:
        """Return the reported values, which belong to the step that ends."""
        values, self.values = self.values, {}
        return values


class _ChainerHooks:
    """The functions that are put around Chainer's own."""

    chainer: Any = None

    def __init__(self) -> None:
        self.placed: list[tuple[Any, str, Any, Any]] = []  # owner, name, Chainer's own, ours
        self.watched = LoopWatch(_ChainerLoop).present

    def put(
        self,
        owners: Sequence[Any],
        names: Sequence[str],
        around: Callable[[Callable[..., Any]], Callable[..., Any]],
    ) -> None:
        """Put one function around what the first owner has by the first name, in all places."""
        original = getattr(owners[0], names[0])
        hook = around(original)
        for owner in owners:
            for name in names:
                self.placed.append((owner, name, original, hook))
                setattr(owner, name, hook)

    def backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``Variable.backward`` which also notes the loss that it is called on."""

        @functools.wraps(original)
        def backward(variable: Any, *args: Any, **kwargs: Any) -> Any:
            # With a gradient it starts from no loss.
            if (here := self.watched()) is None or variable.grad is not None:
                return original(variable, *args, **kwargs)
            here.do(here.loop.backward)
            result = original(variable, *args, **kwargs)
            if variable.array is not None and variable.array.size == 1:
                here.do(lambda: here.loop.add_loss(_scalar(variable)))
            return result

        return backward

    def update(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return an optimizer's ``update`` whose end is a step; one inside another is none."""

        @functools.wraps(original)
        def update(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            here = self.watched()
            if here is None or here.is_updating:
                return original(optimizer, *args, **kwargs)
            here.is_updating = True
            try:
                result = original(optimizer, *args, **kwargs)
            finally:
                here.is_updating = False
            here.ended_step(optimizer, name_of, _rate, here.taken, parameters=_parameters)
            return result

        return update

    def wrap_clear(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a link's ``cleargrads`` which also notes whose gradients are thrown away."""

        @functools.wraps(original)
        def clear(link: Any, *args: Any, **kwargs: Any) -> Any:
            if (here := self.watched()) is not None:
                here.cleared(link.params)
            return original(link, *args, **kwargs)

        return clear

    def wrap_next(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return an iterator's ``__next__``, timed."""

        @functools.wraps(original)
        def get(iterator: Any) -> Any:
            if (here := self.watched()) is None:
                return original(iterator)
            asked = now()
            batch = original(iterator)
            here.do(lambda: here.loop.fetched(_pass(iterator), asked))
            return batch

        return get

    def wrap_report(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``chainer.report`` whose values become points of the next step."""

        @functools.wraps(original)
        def report(values: Any, observer: Any = None) -> None:
            here = self.watched()
            if here is not None and self.chainer.config.train:
                here.do(lambda: here.values.update(_plain(values)))
            original(values, observer)

        return report


_hooks = _ChainerHooks()


def _pass(iterator: Any) -> Pass:
    """Return an iterator's pass over its data, of length 1; another begins where it is reset.

    Batches may reach over the end of an epoch, so the iterator itself says where it is.
    """
    found: Pass | None = vars(iterator).get(PASS)
    if found is None or iterator.epoch_detail < found.position:
        found = Pass(id(iterator.dataset), lambda: 1, iterator.batch_size, repeats=True)
        setattr(iterator, PASS, found)
    found.position = float(iterator.epoch_detail)
    return found


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scalars among values, except the loss, which the backward pass has."""
    found = {}
    for name, value in values.items():
        array = getattr(value, "array", value)
        if name == "loss" or getattr(array, "size", 1) != 1:
            continue
        if hasattr(array, "__cuda_array_interface__"):
            found[name] = array
        else:
            with contextlib.suppress(TypeError, ValueError):  # anything may be reported
                found[name] = float(array)
    return found


def _scalar(variable: Any) -> Any:
    array = variable.array
    return array if hasattr(array, "__cuda_array_interface__") else float(array)


def _numbers(values: Sequence[Any]) -> list[float]:
    return [float(value) for value in values]


def _parameters(optimizer: Any) -> Iterable[Any]:
    """Return the parameters that an optimizer changes."""
    found: Iterable[Any] = optimizer.target.params()
    return found


def _rate(optimizer: Any) -> Any:
    """Return the learning rate, which Adam calls alpha; None for an optimizer without one."""
    hyperparameters = getattr(optimizer, "hyperparam", None)
    rate = getattr(hyperparameters, "lr", getattr(hyperparameters, "alpha", None))
    return float(rate) if isinstance(rate, int | float) else None
