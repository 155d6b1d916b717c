"""Report each gradient as soon as Chainer's backward pass has completed it.

Chainer stores a parameter's gradient when the whole pass is over. It is complete much earlier:
after the last function that takes the parameter, which follows from the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from chainer import _backprop_utils

from workbench.engine.exchange.transport import Array


@contextmanager
def report_gradients(
    loss: Any, parameters: Sequence[Any], report: Callable[[int, Array], None]
) -> Iterator[None]:
    """Call ``report`` with number and gradient of each parameter during ``loss.backward()``."""
    numbers = {parameter.node: n for n, parameter in enumerate(parameters)}
    left = uses(loss, numbers)
    original = _backprop_utils.backprop_step

    def step(
        func: Any, indexes: Any, grad_outputs: Any, grad_inputs: dict[Any, list[Any]], debug: bool
    ) -> None:
        original(func, indexes, grad_outputs, grad_inputs, debug)
        for node, gradients in grad_inputs.items():
            if node in left:
                left[node] -= 1
                if not left[node] and (whole := _backprop_utils._reduce(gradients)) is not None:
                    report(numbers[node], whole.array)

    _backprop_utils.backprop_step = step
    try:
        yield
    finally:
        _backprop_utils.backprop_step = original


def uses(loss: Any, nodes: dict[Any, int]) -> dict[Any, int]:
    """Return the number of functions between ``loss`` and each of the nodes that take it."""
    found: dict[Any, int] = {}
    pending = [loss.creator_node] if loss.creator_node is not None else []
    seen = {*pending}
    while pending:
        for node in {*pending.pop().inputs}:
            if node in nodes:
                found[node] = found.get(node, 0) + 1
            function = node.creator_node
            if function is not None and function not in seen:
                seen.add(function)
                pending.append(function)
    return found
