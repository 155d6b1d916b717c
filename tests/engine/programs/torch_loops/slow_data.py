"""Train for 40 steps with 20 ms of data, 5 ms of computation and 10 ms of other work each."""

from __future__ import annotations

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset[torch.Tensor]):
    """Examples that take a moment."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.02)
        return torch.full((4,), float(index))


model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
for inputs in DataLoader(Slow(), batch_size=1):
    loss = model(inputs).mean()
    time.sleep(0.005)
    loss.backward()
    optimizer.step()
    time.sleep(0.01)
