"""Average gradients of PyTorch's models in place, and give some that are refused.

``right`` has whether each statement holds, and ``errors`` the messages about what is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

import workbench
from tests.engine.programs.world import found, rank, size, worlds, write_found
from workbench.errors import WorkbenchError

comm_world = worlds.offer(0)
torch.set_num_threads(1)
torch.manual_seed(20_311)
last = rank == size - 1


def network() -> Any:
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 36, 200),
        torch.nn.ReLU(),
        torch.nn.Linear(200, 10),
    )


def backward(model: Any) -> None:
    draw = torch.Generator().manual_seed(rank)
    model.zero_grad()
    images = torch.rand(16, 1, 8, 8, generator=draw)
    labels = torch.randint(0, 10, (16,), generator=draw)
    torch.nn.functional.cross_entropy(model(images), labels).backward()


def mean(tensor: Any) -> Any:
    return comm_world.allreduce(tensor.detach().double().numpy()) / size


def means(model: Any) -> list[Any]:
    return [mean(p.grad) for p in model.parameters()]


def refusal(comm: Any, parameters: Iterable[Any]) -> str:
    try:
        comm.allreduce_gradients(parameters)
    except WorkbenchError as error:
        return str(error)
    return "nothing"


def alike(model: Any) -> bool:
    own = b"".join(p.grad.numpy().tobytes() for p in model.parameters() if p.grad is not None)
    return len({*comm_world.allgather(own)}) == 1


def close(model: Any, wanted: list[Any], rtol: float, atol: float) -> bool:
    return all(
        np.allclose(p.grad.numpy(), w, rtol=rtol, atol=atol)
        for p, w in zip(model.parameters(), wanted, strict=True)
    )


def in_place() -> dict[str, bool]:
    """Means are exact, alike, and in the tensors that were there."""
    right = {}
    for how, overlap in {"": None, "overlap": True}.items():
        comm, model = workbench.create_communicator(overlap=overlap), network()
        for step in range(3):
            backward(model)
            wanted = means(model)
            held = [(p.grad.data_ptr(), p.grad) for p in model.parameters()]
            comm.allreduce_gradients(model.parameters() if step else model.named_parameters())
            right[f"mean {how} {step}"] = close(model, wanted, 1e-6, 1e-8)
            right[f"alike {how} {step}"] = alike(model)
            right[f"in place {how} {step}"] = all(
                p.grad is g and g.data_ptr() == at
                for p, (at, g) in zip(model.parameters(), held, strict=True)
            )
    return right


def unusual() -> dict[str, bool]:
    """Parameters that have no gradient, of other types and of other strides."""
    right = {}
    comm, model = workbench.create_communicator(), network()
    model[3].weight.requires_grad_(False)  # is passed over
    backward(model)
    right["frozen"] = refusal(comm, model.named_parameters()) == "nothing" and alike(model)
    model = network()
    odd = torch.nn.Linear(3, 3)  # no rank has used it
    backward(model)
    right["unused"] = refusal(comm, [*model.parameters(), *odd.parameters()]) == "nothing"
    right["none stays"] = odd.weight.grad is None and alike(model)
    for kind in (torch.float64, torch.float16):
        model = network()
        backward(model)
        model = model.to(kind)
        wanted = means(model)
        right[f"{kind}"] = (
            refusal(comm, model.parameters()) == "nothing"
            and alike(model)
            and close(model, wanted, 2e-3, 1e-6)
        )
    model = network().to(memory_format=torch.channels_last)
    backward(model)
    wanted = means(model)
    right["strides"] = refusal(comm, model.parameters()) == "nothing" and close(
        model, wanted, 1e-6, 1e-8
    )
    return right


def coded() -> dict[str, bool]:
    """With each codec means are alike, and what is lost comes back."""
    right = {}
    for codec in ("fp16", "bf16", "int8", "topk", "powersgd"):
        comm, model = workbench.create_communicator(compress=codec), network()
        total: Any = 0.0
        truth: Any = 0.0
        for step in range(40):
            backward(model)
            truth = truth + mean(model[3].weight.grad)
            comm.allreduce_gradients(model.named_parameters())
            total = total + model[3].weight.grad.double().numpy()
            right[f"{codec} {step}"] = alike(model)
        lost = np.linalg.norm(total - truth) / np.linalg.norm(truth)
        right[f"{codec} fed back"] = bool(lost < (0.6 if codec in ("topk", "powersgd") else 1e-3))
    return right


def refused() -> dict[str, str]:
    """Gradients that the last rank lacks or that are not finite, and a type without NumPy's."""
    errors = {}
    comm, model = workbench.create_communicator(), network()
    backward(model)
    if last:
        model[5].weight.grad = None
    errors["missing"] = refusal(comm, model.named_parameters())
    backward(model)
    if last:
        model[0].weight.grad[0, 0, 1, 1] = float("nan")
    errors["nan"] = refusal(comm, model.named_parameters())
    backward(model)
    if last:
        model[3].weight.grad[7, 7] = float("inf")
    errors["unnamed"] = refusal(comm, model.parameters())
    model = model.to(torch.bfloat16)
    errors["bfloat16"] = refusal(comm, model.named_parameters())
    comm, model = workbench.create_communicator(), network()
    backward(model)
    errors["after"] = refusal(comm, model.named_parameters())
    return errors


found["right"] = in_place() | unusual() | coded()
found["errors"] = refused()

write_found()
