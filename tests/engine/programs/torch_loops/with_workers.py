"""Train a network inside a worker's data set, too: what a worker does is none of the loop's."""

from __future__ import annotations

import json

import torch
from torch.utils.data import DataLoader, Dataset


class Fitted(Dataset[torch.Tensor]):
    """Examples that are fitted by an optimizer of their own."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> torch.Tensor:
        example = torch.zeros(3, requires_grad=True)
        optimizer = torch.optim.SGD([example], lr=0.5)
        (example - index).square().sum().backward()
        optimizer.step()
        return example.detach()


model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
losses = []
loader = DataLoader(Fitted(), batch_size=3, num_workers=2, persistent_workers=True)
for _epoch in range(2):
    for inputs in loader:
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
print(json.dumps({"loss": losses}))
