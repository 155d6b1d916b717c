"""Average the gradients of a PyTorch model over the ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from workbench.errors import InputError

# Takes names, gradients and shapes; returns the numbers of gradients with their means.
Mean = Callable[[list[str], list[Any], list[tuple[int, ...]]], list[tuple[int, Any]]]
# NumPy has no such types, and would misread their bytes.
_WITHOUT_NUMPY = ("bfloat16", "float8")


class HostCopies:
    """Copies of tensors in host memory; those from a GPU are pinned and the same at every step.

    A copy into memory that is new or not pinned takes several times as long.
    """

    def __init__(self) -> None:
        self._pinned: dict[Any, Any] = {}

    def of(self, name: Any, tensor: Any) -> Any:
        """Return a tensor's values as a NumPy array; on a CPU its own memory."""
        found = self.begin(name, tensor)
        wait_for_copies([tensor])
        return found

    def begin(self, name: Any, tensor: Any) -> Any:
        """Return such an array, which ``wait_for_copies`` completes."""
        values = tensor.detach()
        if not values.is_cuda:
            return values.cpu().numpy()
        kept = self._pinned.get(name)
        if kept is None or (kept.shape, kept.dtype) != (values.shape, values.dtype):
            kept = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._pinned[name] = kept
        return kept.copy_(values, non_blocking=True).numpy()


def wait_for_copies(tensors: Iterable[Any]) -> None:
    """Wait until copies of tensors from and to their GPUs are complete."""
    for device in {one.device for one in tensors if one is not None and one.is_cuda}:
        torch.cuda.current_stream(device).synchronize()


def allreduce_gradients(parameters: Iterable[Any], mean: Mean, copies: HostCopies) -> None:
    """Replace the gradients of ``parameters`` by their means over the ranks.

    Call it between ``loss.backward()`` and ``optimizer.step()``; parameters without a gradient
    requirement are skipped. The tensors stay in place, and on a CPU are read and written without
    a copy.

    Args:
        parameters: Such as ``model.parameters()``, the same on all ranks and in the same order;
            or ``model.named_parameters()``, so that an error can name them.
        mean: Averages over the ranks; see ``ExchangeCommunicator.mean``.
        copies: Those of earlier steps.

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
    for (name, _), tensor in zip(named, tensors, strict=True):
        _check_type(name, tensor)
    gradients = [
        None if tensor is None else copies.begin(name, tensor)
        for (name, _), tensor in zip(named, tensors, strict=True)
    ]
    wait_for_copies(tensors)
    before = [*gradients]
    names = [name for name, _ in named]
    shapes = [tuple(parameter.shape) for _, parameter in named]
    for number, gradient in mean(names, gradients, shapes):
        gradients[number] = gradient
    for tensor, old, new in zip(tensors, before, gradients, strict=True):
        if tensor is not None and (new is not old or tensor.device.type != "cpu"):
            # One that waits takes 0.2 ms longer, whatever its size.
            tensor.copy_(torch.from_numpy(new), non_blocking=tensor.is_cuda)
    wait_for_copies(tensors)


def _check_type(name: str, tensor: Any) -> None:
    """Refuse a gradient of a type that NumPy does not have."""
    kind = "" if tensor is None else str(tensor.dtype).removeprefix("torch.")
    if kind.startswith(_WITHOUT_NUMPY):
        raise InputError(
            f"The gradient of {name} is {kind}, which NumPy does not have",
            "average it in float32, and use --compress bf16 to send less.",
        )
