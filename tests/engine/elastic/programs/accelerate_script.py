"""A small network in a loop of accelerate, which says where a step ends or resumes by itself."""

from __future__ import annotations

import signal
from typing import Any

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from torch.utils.data import DataLoader

import workbench
from tests.engine.elastic.programs.trainer_script import Network, Numbers, Stream


def train(here: Any) -> None:
    torch.manual_seed(here.seed)
    accelerator = Accelerator(
        cpu=True,
        gradient_accumulation_steps=here.accumulate,
        dataloader_config=DataLoaderConfiguration(split_batches=here.splits),
    )
    model = Network(here.dropout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.5)
    data: Any = (Stream if here.streams else Numbers)(here.examples, here.noise)
    shuffle = None if here.streams else True
    loader = DataLoader(data, here.batch, shuffle=shuffle, num_workers=here.workers)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.train()
    state = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "losses": {}}

    def step(done: int, batch: Any, weight: float = 1.0) -> None:
        with accelerator.accumulate(model):
            here.noted(done, batch["number"].tolist())
            loss = model(**batch)["loss"] * weight
            accelerator.backward(loss)
            optimizer.step()
            if accelerator.sync_gradients:
                scheduler.step()
            optimizer.zero_grad()
        losses, name = state["losses"], str(done + 1)
        losses[name] = losses.get(name, 0.0) + accelerator.reduce(loss.detach(), "mean").item()

    if here.own:
        train_by_itself(here, accelerator, loader, scheduler, step)
    else:
        for one in workbench.elastic(state, data=loader, epochs=here.epochs):
            step(int(one), one.batch, one.weight)
    here.found["losses"] = state["losses"]
    here.found["rate"] = scheduler.get_last_lr()
    here.found["weights"] = [float(one.double().sum()) for one in model.parameters()]
    model.eval()
    every = torch.utils.data.default_collate([*map(Numbers(48).__getitem__, range(48))])
    here.found["evaluated"] = accelerator.unwrap_model(model)(**every)["loss"].item()


def train_by_itself(here: Any, accelerator: Any, loader: Any, scheduler: Any, step: Any) -> None:
    """Train as accelerate's own example with checkpoints does."""
    asked: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
    accelerator.register_for_checkpointing(scheduler)
    done = 0
    for path in (here.place / "own").glob("step_*"):
        done = max(done, int(path.name.removeprefix("step_")))
    if done:
        accelerator.load_state(str(here.place / "own" / f"step_{done}"))
    first, skipped = divmod(done, len(loader))
    for epoch in range(first, here.epochs):
        loader.set_epoch(epoch)
        batches = loader
        if epoch == first and skipped:
            batches = accelerator.skip_first_batches(loader, skipped)
        for batch in batches:
            step(done, batch)
            done += 1
            if asked:
                accelerator.save_state(str(here.place / "own" / f"step_{done}"))
                return
