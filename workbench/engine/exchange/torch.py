"""Average the gradients of a PyTorch model over the ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from workbench.errors import InputError

# Takes names, gradients and shapes; returns the numbers of gradients with their means.
Mean = Callable[[list[str], list[Any], list[tuple[int, ...]]], list[tuple[int, Any]]]
# NumPy has no such types, and would misread their bytes.
_WITHOUT_NUMPY = ("bfloat16", "float8")


def allreduce_gradients(parameters: Iterable[Any], mean: Mean) -> None:
    """Replace the gradients of ``parameters`` by their means over the ranks.

    Call it between ``loss.backward()`` and ``optimizer.step()``; parameters without a gradient
    requirement are skipped. The tensors stay in place, and on a CPU are read and written without
    a copy.

    Args:
        parameters: Such as ``model.parameters()``, the same on all ranks and in the same order;
            or ``model.named_parameters()``, so that an error can name them.
        mean: Averages over the ranks; see ``ExchangeCommunicator.mean``.

    Raises:
        InputError: A gradient has a type that NumPy does not have.
        GradientError: Ranks do not agree, or a gradient is not finite; on all ranks.
    """
    named = [
        one if isinstance(one, tuple) else (f"parameter {n}", one)
        for n, one in enumerate(parameters)
    ]
    named = [(name, parameter) for name, parameter in named if parameter.requires_grad]
    tensors = [parameter.grad for _, parameter in named]
    gradients = [_host(name, t) for (name, _), t in zip(named, tensors, strict=True)]
    before = [*gradients]
    names = [name for name, _ in named]
    shapes = [tuple(parameter.shape) for _, parameter in named]
    for number, gradient in mean(names, gradients, shapes):
        gradients[number] = gradient
    for tensor, old, new in zip(tensors, before, gradients, strict=True):
        if tensor is not None and (new is not old or tensor.device.type != "cpu"):
            tensor.copy_(_tensor(new, tensor))


def _host(name: str, tensor: Any) -> Any:
    """Return a gradient's memory as a NumPy array; a copy if it is on a GPU."""
    if tensor is None:
        return None
    kind = str(tensor.dtype).removeprefix("torch.")
    if kind.startswith(_WITHOUT_NUMPY):
        raise InputError(
            f"The gradient of {name} is {kind}, which NumPy does not have",
            "average it in float32, and use --compress bf16 to send less.",
        )
    return tensor.detach().cpu().numpy()


def _tensor(array: Any, like: Any) -> Any:
    import torch

    return torch.from_numpy(array).to(like.device)
