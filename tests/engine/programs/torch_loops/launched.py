"""Start a process per rank by torch.multiprocessing, as scripts for several GPUs do."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def setup(rank, world_size):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "12355"
    dist.init_process_group("gloo", rank=rank, world_size=world_size)


def train(rank, world_size, epochs):
    setup(rank, world_size)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(epochs):
        loss = model(torch.ones(8, 4) * (rank + 1)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("spawned", rank, "of", dist.get_world_size())
    dist.destroy_process_group()


mp.spawn(train, args=(2, 5), nprocs=2)
