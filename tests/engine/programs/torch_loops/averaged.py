"""Average 4 MB of gradients by our communicator in each of 60 steps."""

from __future__ import annotations

import torch

import workbench

torch.set_num_threads(1)
comm = workbench.create_communicator("auto")
model = torch.nn.Linear(1024, 1024)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(60):
    optimizer.zero_grad()
    model(torch.randn(8, 1024)).square().mean().backward()
    comm.allreduce_gradients(model.named_parameters())
    optimizer.step()
