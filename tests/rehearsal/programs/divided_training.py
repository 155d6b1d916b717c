"""A cell that trains a model which FSDP2 divides among the ranks, by an elastic loop.

``EPOCHS`` are of three steps; ``SECONDS`` each step takes. Each rank reports ``whole``, the mean
loss of the global batch.
"""

import os
import time

import torch
from torch.distributed.fsdp import fully_shard

import workbench

torch.distributed.init_process_group("gloo")
torch.manual_seed(7)
data = torch.rand(24, 4, dtype=torch.float64)
model = torch.nn.Sequential(torch.nn.Linear(4, 24), torch.nn.Tanh(), torch.nn.Linear(24, 1))
model = model.double()
mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (torch.distributed.get_world_size(),))
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
state = {"model": model, "optimizer": optimizer}
batches = workbench.GlobalBatches(24, 8, seed=3)
for step in workbench.elastic(state, epochs=int(os.environ["EPOCHS"]), data=batches):
    batch = data[torch.as_tensor(step.batch, dtype=torch.long)]
    optimizer.zero_grad()
    loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean() * step.weight
    loss.backward()
    optimizer.step()
    torch.distributed.all_reduce(whole := loss.detach().clone())
    workbench.report(whole=whole.item() / torch.distributed.get_world_size())
    time.sleep(float(os.environ["SECONDS"]))
torch.distributed.destroy_process_group()
