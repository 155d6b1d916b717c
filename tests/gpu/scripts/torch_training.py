"""Train a small network of PyTorch on GPU 0 of every rank by DistributedDataParallel.

The argument is the backend of its process group.
"""

import sys
import time

import torch
from torch.nn.parallel import DistributedDataParallel

torch.distributed.init_process_group(sys.argv[1] if len(sys.argv) > 1 else "gloo")
rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
torch.manual_seed(20_260)
images = torch.rand(1024, 64)
labels = images.reshape(-1, 8, 8).sum(dim=2).argmax(dim=1)
net = torch.nn.Sequential(torch.nn.Linear(64, 200), torch.nn.ReLU(), torch.nn.Linear(200, 8))
model = DistributedDataParallel(net.cuda(0), device_ids=[0])
optimizer = torch.optim.Adam(model.parameters())
data = torch.utils.data.TensorDataset(images, labels)
sampler = torch.utils.data.DistributedSampler(data, seed=1)
loader = torch.utils.data.DataLoader(data, 64, sampler=sampler)
losses = []
start = time.perf_counter()
for epoch in range(40):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x.cuda(0)), y.cuda(0))
        loss.backward()
        optimizer.step()
    losses.append(loss.item())
seconds = time.perf_counter() - start
own = torch.stack([p.detach().abs().sum() for p in model.parameters()])
sums = [torch.zeros_like(own) for _ in range(size)]
torch.distributed.all_gather(sums, own)
assert all(bool((one == own).all()) for one in sums), sums
assert losses[-1] < losses[0] / 2, losses
if rank == 0:
    print(f"CHECKED loss {losses[0]:.3f} to {losses[-1]:.3f} in {seconds:.1f} s on {size} ranks")
