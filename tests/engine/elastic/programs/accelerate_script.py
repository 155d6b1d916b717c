"""A small network in a loop of accelerate, which says where a step ends."""

from __future__ import annotations

from typing import Any

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from torch.utils.data import DataLoader

import workbench
from tests.engine.elastic.programs.trainer_script import Network, Numbers, Stream


def train(here: Any) -> None:
    torch.manual_seed(3)
    accelerator = Accelerator(
        cpu=True, dataloader_config=DataLoaderConfiguration(split_batches=here.splits)
    )
    model = Network(here.dropout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.5)
    data: Any = (Stream if here.streams else Numbers)(here.examples)
    shuffle = None if here.streams else True
    loader = DataLoader(data, here.batch, shuffle=shuffle, num_workers=here.workers)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.train()
    state = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "losses": {}}
    for step in workbench.elastic(state, data=loader, epochs=here.epochs):
        here.noted(int(step), step.batch["number"].tolist())
        loss = model(**step.batch)["loss"] * step.weight
        accelerator.backward(loss)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        state["losses"][str(int(step) + 1)] = accelerator.reduce(loss.detach(), "mean").item()
    here.found["losses"] = state["losses"]
    here.found["rate"] = scheduler.get_last_lr()
    here.found["weights"] = [float(one.double().sum()) for one in model.parameters()]
