"""Train a network that FSDP2 has divided, on GPU 0 of every rank, in an elastic loop.

Arguments: the backend of its process group, and a file; without it the last rank ends itself once
in the middle of the training, and leaves it.
"""

import os
import signal
import sys
import time
from pathlib import Path

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import workbench

torch.cuda.set_device(0)
torch.distributed.init_process_group(sys.argv[1])
rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
torch.manual_seed(20_260)
images = torch.rand(512, 64, device="cuda:0")
labels = images.reshape(-1, 8, 8).sum(dim=2).argmax(dim=1)
model = torch.nn.Sequential(
    torch.nn.Linear(64, 200), torch.nn.ReLU(), torch.nn.Linear(200, 8)
).cuda(0)
mesh = init_device_mesh("cuda", (size,))
for one in (model[0], model[2], model):
    fully_shard(one, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
state = {"model": model, "optimizer": optimizer, "seen": []}
batches = workbench.GlobalBatches(512, 64, seed=1)
lost = Path(sys.argv[2])
for step in workbench.elastic(state, data=batches, epochs=20):
    batch = torch.as_tensor(step.batch, device="cuda:0")
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images[batch]), labels[batch])
    (step.weight * loss).backward()
    optimizer.step()
    state["seen"].append(int(step))
    time.sleep(0.02)  # long enough for a snapshot
    if rank == size - 1 and step == 80 and not lost.exists():
        lost.touch()
        os.kill(os.getpid(), signal.SIGKILL)
assert state["seen"] == [*range(160)], state["seen"]
assert loss.item() < 1.5, loss
if rank == 0:
    print(f"CHECKED loss {loss.item():.3f} after 160 steps on {size} ranks")
