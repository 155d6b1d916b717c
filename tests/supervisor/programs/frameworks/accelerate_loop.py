"""Train by accelerate's preparation of a loop, with accumulated gradients and logged values."""

from __future__ import annotations

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
torch.manual_seed(7)
x = torch.randn(64, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
accelerator.init_trackers("trained")
steps = 0
for _epoch in range(3):
    for inputs, wanted in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(inputs), wanted)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            steps += accelerator.sync_gradients
accelerator.log({"final": loss.item()}, step=steps)
accelerator.end_training()
print("ranks", accelerator.num_processes, "rank", accelerator.process_index, "steps", steps)
