"""Train a small convolutional network on drawn digits, as an ordinary script of PyTorch.

It also runs without workbench: ``torchrun --nproc-per-node 2 digits_torch.py``.
"""

# mypy: ignore-errors
# Written as a user's script.

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import workbench
from workbench.demo.images import TRAINING, digits


def accuracy(model, data):
    """Return the share of right answers; each rank computes its part."""
    rank, size = dist.get_rank(), dist.get_world_size()
    images, labels = data[rank::size]
    with torch.no_grad():
        right = (model.module(images).argmax(1) == labels).sum()
    counts = torch.tensor([float(right), float(len(labels))])
    dist.all_reduce(counts)
    return float(counts[0] / counts[1])


def main():
    """Train on all ranks; rank 0 prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epoch", type=int, default=10)
    parser.add_argument("--batchsize", type=int, default=16, help="images a step and rank")
    parser.add_argument("--out", help="not used: this script saves nothing")
    args = parser.parse_args()

    torch.manual_seed(0)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(
        nn.Sequential(
            *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(32 * 2 * 2, 10)),
        )
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

    images, labels = map(torch.from_numpy, digits())
    images, labels = images[:, None], labels.long()
    train = TensorDataset(images[:TRAINING], labels[:TRAINING])
    test = TensorDataset(images[TRAINING:], labels[TRAINING:])
    sampler = DistributedSampler(train)
    for epoch in range(args.epoch):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(train, args.batchsize, sampler=sampler):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        reached = accuracy(model, test)
        workbench.report(accuracy=reached, epoch=epoch + 1)
        if dist.get_rank() == 0:
            print(f"epoch {epoch + 1}: loss {float(loss.detach()):.3f}, accuracy {reached:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
