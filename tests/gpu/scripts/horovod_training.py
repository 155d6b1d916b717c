"""Train a small network on GPU 0 of every rank by Horovod's functions."""

import horovod.torch as hvd
import torch

hvd.init()
torch.manual_seed(20_260 + hvd.rank())  # other weights on each rank, until they are sent
images = torch.rand(512, 64, generator=torch.Generator().manual_seed(1)).cuda(0)
labels = images.reshape(-1, 8, 8).sum(dim=2).argmax(dim=1)
own = slice(hvd.rank(), None, hvd.size())
net = torch.nn.Sequential(torch.nn.Linear(64, 200), torch.nn.ReLU(), torch.nn.Linear(200, 8))
net.cuda(0)
optimizer = hvd.DistributedOptimizer(
    torch.optim.Adam(net.parameters(), lr=0.01),
    named_parameters=net.named_parameters(),
    compression=hvd.Compression.fp16,
)
hvd.broadcast_parameters(net.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
losses = []
for _ in range(100):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(images[own]), labels[own])
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
sums = torch.stack([p.detach().abs().sum() for p in net.parameters()])
every = hvd.allgather(sums[None])
assert every.is_cuda
assert bool((every == sums).all()), every
assert losses[-1] < losses[0] / 2, losses
if hvd.rank() == 0:
    print(f"CHECKED loss {losses[0]:.3f} to {losses[-1]:.3f} on {hvd.size()} ranks")
