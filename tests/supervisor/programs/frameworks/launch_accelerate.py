"""Train by accelerate's launcher for notebooks."""

import torch
from accelerate import Accelerator, notebook_launcher


def f(epochs):
    accelerator = Accelerator(cpu=True)
    model = torch.nn.Linear(4, 1)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.05))
    for _ in range(epochs):
        loss = model(torch.ones(8, 4)).pow(2).mean()
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
    print("trained", accelerator.process_index, "of", accelerator.num_processes)


notebook_launcher(f, args=(5,), num_processes=2)
