"""Train a model that is divided among two ranks, which pass activations and gradients on."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
layer = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(layer.parameters(), lr=1e-3)
try:
    for _ in range(60):
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            time.sleep(0.005)  # as if it computed, while the other rank waits
            outputs = layer(torch.randn(8, 16))
            dist.send(outputs.detach(), 1)
            gradient = torch.empty(8, 16)
            dist.recv(gradient, 1)
            outputs.backward(gradient)
        else:
            inputs = torch.empty(8, 16)
            dist.recv(inputs, 0)
            time.sleep(0.005)
            inputs.requires_grad_()
            layer(inputs).square().mean().backward()
            dist.send(inputs.grad, 0)
        optimizer.step()
finally:
    dist.destroy_process_group()
