"""Make model and optimizer where they are missing, else train with them: as two cells do."""

from __future__ import annotations

import json
from typing import Any

import torch

kept: Any = vars(torch)
losses = []
if "_kept_optimizer" not in kept:
    kept["_kept_model"] = torch.nn.Linear(4, 1)
    kept["_kept_optimizer"] = torch.optim.SGD(kept["_kept_model"].parameters(), lr=0.05)
else:
    model, optimizer = kept.pop("_kept_model"), kept.pop("_kept_optimizer")
    torch.manual_seed(2)
    x = torch.randn(12, 4)
    for _ in range(4):
        optimizer.zero_grad()
        for part in x.chunk(3):
            loss = (model(part) - part.sum(1, keepdim=True)).square().mean() / 3
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
print(json.dumps({"loss": losses}))
