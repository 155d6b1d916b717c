"""Gradients of PyTorch's models are averaged in place, and what is amiss is named."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is an extra that the tests do without")

pytestmark = pytest.mark.mpi

CONTRACT = """
import numpy as np
import torch
import workbench
from workbench.errors import WorkbenchError

comm_world = worlds.offer(0)
torch.set_num_threads(1)
torch.manual_seed(20_311)

def network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(8 * 36, 200), torch.nn.ReLU(), torch.nn.Linear(200, 10))

def backward(model, scale=1.0):
    draw = torch.Generator().manual_seed(rank)
    model.zero_grad()
    images = torch.rand(16, 1, 8, 8, generator=draw)
    labels = torch.randint(0, 10, (16,), generator=draw)
    (scale * torch.nn.functional.cross_entropy(model(images), labels)).backward()

def mean(tensor):
    return comm_world.allreduce(tensor.detach().double().numpy()) / size

def said(comm, parameters):
    try:
        comm.allreduce_gradients(parameters)
    except WorkbenchError as error:
        return str(error)
    return "nothing"

def alike(model):
    own = b"".join(p.grad.numpy().tobytes() for p in model.parameters() if p.grad is not None)
    return len({*comm_world.allgather(own)}) == 1

for how, options in {"": {}, "overlap": {"overlap": True}}.items():
    comm, model = workbench.create_communicator(**options), network()
    for step in range(3):
        backward(model)
        wanted = [mean(p.grad) for p in model.parameters()]
        held = [(p.grad.data_ptr(), p.grad) for p in model.parameters()]
        comm.allreduce_gradients(model.parameters() if step else model.named_parameters())
        found[f"mean {how} {step}"] = all(
            np.allclose(p.grad.numpy(), w, rtol=1e-6, atol=1e-8)
            for p, w in zip(model.parameters(), wanted))
        found[f"alike {how} {step}"] = alike(model)
        found[f"in place {how} {step}"] = all(
            p.grad is g and g.data_ptr() == at for p, (at, g) in zip(model.parameters(), held))

comm, model = workbench.create_communicator(), network()
model[3].weight.requires_grad_(False)  # is passed over
backward(model)
found["frozen"] = said(comm, model.named_parameters()) == "nothing" and alike(model)
model = network()
odd = torch.nn.Linear(3, 3)  # no rank has used it
backward(model)
found["nobody's"] = said(comm, [*model.parameters(), *odd.parameters()]) == "nothing"
found["none stays"] = odd.weight.grad is None and alike(model)
for kind in (torch.float64, torch.float16):
    model = network()
    backward(model)
    model = model.to(kind)
    wanted = [mean(p.grad) for p in model.parameters()]
    found[f"{kind}"] = said(comm, model.parameters()) == "nothing" and alike(model) and all(
        np.allclose(p.grad.numpy(), w, rtol=2e-3, atol=1e-6)
        for p, w in zip(model.parameters(), wanted))
model = network().to(memory_format=torch.channels_last)
backward(model)
wanted = [mean(p.grad) for p in model.parameters()]
found["strides"] = said(comm, model.parameters()) == "nothing" and all(
    np.allclose(p.grad.numpy(), w, rtol=1e-6, atol=1e-8)
    for p, w in zip(model.parameters(), wanted))

for codec in ("fp16", "bf16", "int8", "topk", "powersgd"):
    comm, model = workbench.create_communicator(compress=codec), network()
    total, truth = 0.0, 0.0
    for step in range(40):
        backward(model)
        truth = truth + mean(model[3].weight.grad)
        comm.allreduce_gradients(model.named_parameters())
        total = total + model[3].weight.grad.double().numpy()
        found[f"{codec} {step}"] = alike(model)
    lost = np.linalg.norm(total - truth) / np.linalg.norm(truth)
    found[f"{codec} fed back"] = bool(lost < (0.6 if codec in ("topk", "powersgd") else 1e-3))

words = {}
comm, model = workbench.create_communicator(), network()
backward(model)
if rank == size - 1:
    model[5].weight.grad = None
words["missing"] = said(comm, model.named_parameters())
backward(model)
if rank == size - 1:
    model[0].weight.grad[0, 0, 1, 1] = float("nan")
words["nan"] = said(comm, model.named_parameters())
backward(model)
if rank == size - 1:
    model[3].weight.grad[7, 7] = float("inf")
words["unnamed"] = said(comm, model.parameters())
model = model.to(torch.bfloat16)
words["bfloat16"] = said(comm, model.named_parameters())
comm, model = workbench.create_communicator(), network()
backward(model)
words["after"] = said(comm, model.named_parameters())
found = {"right": found, "said": words}
"""


@pytest.mark.parametrize("size", [1, 2])
def test_gradients_of_torch_become_their_means_in_place(on_shared_ranks, size) -> None:
    for mine in on_shared_ranks(CONTRACT, size):
        assert [what for what, right in mine["right"].items() if not right] == []


def test_what_is_amiss_with_torchs_gradients_is_said_with_rank_and_parameter(
    on_shared_ranks,
) -> None:
    all_found = on_shared_ranks(CONTRACT, 2)

    for mine in all_found:
        said = mine["said"]
        assert said == all_found[0]["said"]
        assert "Rank 1 has no gradient for 5.weight" in said["missing"]
        assert "The gradient of 0.weight on rank 1 is not finite" in said["nan"]
        assert "The gradient of parameter 2 on rank 1 is not finite" in said["unnamed"]
        assert "The gradient of 0.weight is bfloat16, which NumPy does not have" in said["bfloat16"]
        assert said["after"] == "nothing"
