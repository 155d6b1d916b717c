"""Train in mixed precision with a scaled loss; the second of ten steps overflows."""

from __future__ import annotations

import json

import torch

torch.manual_seed(3)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
losses, scales = [], []
for number in range(1, 11):
    inputs = torch.randn(8, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = (model(inputs).float() - inputs.sum(1, keepdim=True)).square().mean()
    scaler.scale(loss).backward()
    gradient = model.weight.grad
    if number == 2 and gradient is not None:
        gradient[0, 0] = torch.inf
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    losses.append(loss.item())
    scales.append(scaler.get_scale())
print(json.dumps({"loss": losses, "scales": scales}))
