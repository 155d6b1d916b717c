"""Train a generator against a discriminator, whose loss has two backward passes."""

from __future__ import annotations

import json

import torch

torch.manual_seed(5)
generator = torch.nn.Linear(2, 2)
discriminator = torch.nn.Linear(2, 1)
optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=0.02)
optimizer_g = torch.optim.Adam(generator.parameters(), lr=0.01)
judge = torch.nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(8, 1), torch.zeros(8, 1)
losses: dict[str, list[float]] = {"d": [], "g": []}
for _ in range(12):
    discriminator.zero_grad()
    real = judge(discriminator(torch.randn(8, 2) + 3), ones)
    real.backward()
    made = generator(torch.randn(8, 2))
    false = judge(discriminator(made.detach()), zeros)
    false.backward()
    optimizer_d.step()
    losses["d"].append(real.item() + false.item())
    generator.zero_grad()
    fooled = judge(discriminator(made), ones)
    fooled.backward()
    optimizer_g.step()
    losses["g"].append(fooled.item())
print(json.dumps(losses))
