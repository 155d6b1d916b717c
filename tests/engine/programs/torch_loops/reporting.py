"""Report values from a loop by hand, one of them under the name that the loop's own has."""

from __future__ import annotations

import json

import torch

import workbench

torch.manual_seed(8)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(16, 4)
for number in range(1, 7):
    optimizer.zero_grad()
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    loss.backward()
    optimizer.step()
    workbench.report(loss=-number, total=6)
    if number % 3 == 0:
        workbench.report(val_accuracy=number / 10, epoch=number / 3)
print(json.dumps({"loss": [-1, -2, -3, -4, -5, -6]}))
