"""Train each rank on its GPU in an elastic loop; rank 1 ends itself once in its middle."""

import os
import signal
import sys
import time
from pathlib import Path

import torch
from torch.nn.parallel import DistributedDataParallel

import workbench

torch.distributed.init_process_group("gloo")
rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
local = int(os.environ["LOCAL_RANK"])  # ranks that share a GPU have the same
assert local == rank % torch.cuda.device_count(), (local, rank)
device = torch.device("cuda", local)
torch.manual_seed(20_260)
images = torch.rand(512, 64, device=device)
labels = images.reshape(-1, 8, 8).sum(dim=2).argmax(dim=1)
net = torch.nn.Sequential(
    torch.nn.Linear(64, 200), torch.nn.Dropout(0.1), torch.nn.ReLU(), torch.nn.Linear(200, 8)
)
model = DistributedDataParallel(net.to(device), device_ids=[local])
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
counts = torch.zeros(8, device=device)
state = {"model": model, "optimizer": optimizer, "counts": counts, "seen": []}
batches = workbench.GlobalBatches(512, 64, seed=1)
lost = Path(sys.argv[1])
for step in workbench.elastic(state, data=batches, epochs=40):
    batch = torch.as_tensor(step.batch, device=device)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images[batch]), labels[batch])
    (step.weight * loss).backward()
    optimizer.step()
    state["counts"] += 1
    state["seen"].append(int(step))
    time.sleep(0.02)  # long enough for a snapshot
    if rank == 1 and step == 100 and not lost.exists():
        lost.touch()
        os.kill(os.getpid(), signal.SIGKILL)
assert state["seen"] == [*range(320)], state["seen"]
assert state["counts"].tolist() == [320.0] * 8
own = torch.tensor([p.detach().abs().sum().item() for p in model.parameters()])
sums = [torch.zeros_like(own) for _ in range(size)]
torch.distributed.all_gather(sums, own)
assert all(bool((one == own).all()) for one in sums), sums
if rank == 0:
    print(f"CHECKED loss {loss.item():.3f} after 320 steps on {size} ranks")
